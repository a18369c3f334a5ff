import { defineConfig } from "vitest/config";

/** Tests that need minutes or gigabytes: `npm run test:heavy`. */
export default defineConfig({
  test: {
    include: ["packages/server/test/**/*.heavy.ts"],
    pool: "forks",
    maxWorkers: 1,
    // Memory is measured after a collection.
    execArgv: ["--expose-gc"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
