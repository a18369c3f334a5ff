import { defineConfig } from "vitest/config";
import { limits } from "./vitest.limits.ts";
import { ownWorker } from "./vitest.own-worker.ts";
import { LongestFirst } from "./vitest.sequence.ts";

/**
 * Whole processes that start and die again and again, container engines, browsers, and the longest
 * attacks: half of the time of all tests. `npm run test:slow` runs them, `npm test` does not.
 */
const slow = "packages/*/{src,test}/**/*.slow.test.ts";

const slowOwnWorker = [
  "packages/server/test/fuzz/linear.slow.test.ts",
  "packages/sandbox/src/shell/terminal/hostile.slow.test.ts",
];

/**
 * Files that test:elsewhere excludes. Sandboxes, static programs (skopeo, umoci, runc) and file
 * times use the machine's clock, so test certificates are not valid yet and files look old.
 */
const machineClock = [
  "packages/agent/src/browser/browser{,-faults}.slow.test.ts",
  "packages/sandbox/src/drivers/oci/images/image-store.slow.test.ts",
  "packages/sandbox/src/network/proxy/{egress-{proxy,rules,sandbox,tls},user-secrets}.test.ts",
  "packages/server/test/sandboxes/service-secrets.test.ts",
  "packages/server/test/{start-repository,reverse-proxy}.slow.test.ts",
  "packages/server/test/agent-server/plugins.test.ts",
];
const exclude = ["**/node_modules/**", ...(process.env.FAKETIME ? machineClock : [])];

export default defineConfig({
  test: {
    pool: "forks",
    // Two per processor of the reference machine, because tests mostly wait for servers and disks.
    maxWorkers: 4,
    ...limits,
    setupFiles: ["packages/server/test/support/check-events.ts"],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: "all",
          include: ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts"],
          exclude: [...exclude, slow, ...ownWorker],
          // A worker runs files in turn and loads the server once: a file must undo its process
          // changes.
          isolate: false,
        },
      },
      { extends: true, test: { name: "own worker", include: ownWorker, exclude } },
      {
        extends: true,
        test: {
          name: "slow",
          include: [slow],
          exclude: [...exclude, ...slowOwnWorker],
          isolate: false,
        },
      },
      {
        extends: true,
        test: { name: "slow own worker", include: slowOwnWorker, exclude },
      },
    ],
  },
});
