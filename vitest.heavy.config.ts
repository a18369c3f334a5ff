import { defineConfig } from "vitest/config";

/** Tests that need minutes or gigabytes: `npm run test:heavy`. */
export default defineConfig({
  test: {
    include: ["packages/server/test/**/*.heavy.ts"],
    pool: "forks",
    maxWorkers: 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
