import { defineConfig } from "vitest/config";
import { limits } from "./vitest.limits.ts";

/** Tests that need minutes or gigabytes: `npm run test:heavy`. */
export default defineConfig({
  test: {
    include: ["packages/server/test/**/*.heavy.ts"],
    pool: "forks",
    maxWorkers: 1,
    // Memory is measured after a collection.
    execArgv: ["--expose-gc"],
    ...limits,
  },
});
