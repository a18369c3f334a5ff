import { defineConfig } from "vitest/config";

const isolation = "packages/server/test/isolation/*.test.ts";

export default defineConfig({
  test: {
    pool: "forks",
    // One more than the two processors that the suite is measured on: near half of the time a file waits for a server's start, a disk or a sandbox.
    maxWorkers: 3,
    // For what hangs: a machine that is busy with other work takes ten times as long as a quiet one.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    setupFiles: ["packages/server/test/support/check-events.ts"],
    projects: [
      {
        extends: true,
        test: {
          name: "all",
          include: ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts"],
          exclude: ["**/node_modules/**", isolation],
        },
      },
      {
        extends: true,
        // Attacks take what they can of the machine, and the server's answers are timed meanwhile: one after the other, beside nothing else.
        test: { name: "isolation", include: [isolation], fileParallelism: false, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
});
