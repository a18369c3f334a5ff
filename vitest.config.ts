import { defineConfig } from "vitest/config";
import { LongestFirst } from "./vitest.sequence.ts";

const isolation = "packages/server/test/isolation/*.test.ts";

/**
 * Files with a worker of their own: they measure the memory or the descriptors of their process, or load the released
 * client, which looks for a WebSocket when it is loaded.
 */
const ownWorker = [
  "packages/server/src/http/sockets/faults.test.ts",
  "packages/server/test/outbound.test.ts",
  "packages/sandbox/src/drivers/{oci/oci-driver,common/ports}.test.ts",
  "packages/sandbox/src/drivers/oci/warm-shell/warm-shell.test.ts",
  "packages/sandbox/src/network/proxy/egress-{proxy,rules,tls}.test.ts",
  "packages/sandbox/src/shell/terminal/hostile.test.ts",
  "packages/server/test/{bash,bash-socket,released-client,terminal}.test.ts",
  "packages/server/test/agent-server/typescript-client.test.ts",
];

/**
 * Files that test:elsewhere leaves out. Sandboxes, static programs (skopeo, umoci, runc) and the times of files keep the
 * machine's clock: certificates that a test makes are not valid yet in a sandbox, and files look old.
 */
const machineClock = [
  "packages/agent/src/browser/browser{,-faults}.test.ts",
  "packages/sandbox/src/drivers/oci/images/image-store.test.ts",
  "packages/sandbox/src/network/proxy/egress-{proxy,rules,sandbox,tls}.test.ts",
  "packages/server/test/start-repository.test.ts",
  "packages/server/test/agent-server/plugins.test.ts",
];
const exclude = ["**/node_modules/**", ...(process.env.FAKETIME ? machineClock : [])];

export default defineConfig({
  test: {
    pool: "forks",
    // Two per processor of the machine that the suite is measured on: tests wait for servers, disks and sandboxes.
    maxWorkers: 4,
    // For what hangs: a machine that is busy with other work takes ten times as long as a quiet one.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 40_000 } },
    setupFiles: ["packages/server/test/support/check-events.ts"],
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: {
          name: "all",
          include: ["packages/*/src/**/*.test.ts", "packages/*/test/**/*.test.ts"],
          exclude: [...exclude, isolation, ...ownWorker],
          // A worker runs one file after the other and loads the server's modules once: a file has to undo what it
          // changes in its process.
          isolate: false,
        },
      },
      { extends: true, test: { name: "own worker", include: ownWorker, exclude } },
      {
        extends: true,
        // Attacks take what they can of the machine while the server's answers are timed: one file at a time.
        test: {
          name: "isolation",
          include: [isolation],
          fileParallelism: false,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
