import { defineConfig, type TestProjectConfiguration } from "vitest/config";
import { limits } from "./vitest.limits.ts";
import { ownWorker } from "./vitest.own-worker.ts";
import { LongestFirst } from "./vitest.sequence.ts";

/** Tests that drive a server over HTTP and WebSockets. */
const include = ["packages/server/src/http/**/*.test.ts", "packages/server/test/**/*.test.ts"];

/** Tests in these folders that start no server of the tests' support, so nothing would differ. */
const withoutServer = [
  "**/node_modules/**",
  "**/*.slow.test.ts",
  "packages/server/test/{isolation,moves,recorded,sandboxes,skills,store}/**",
  "packages/server/test/{fuzz/checks,outbound,postgres-platform,references,structure}.test.ts",
  "packages/server/src/http/server/unknown-settings.test.ts",
];

/** Tests that start a whole platform. */
const platforms = ["packages/server/test/*.test.ts", "packages/server/test/{agent-server,sockets}/*.test.ts"];

/** Tests with a whole platform to which it does not matter how many nodes there are. */
const onOneNode = [
  // They start servers of their own.
  "packages/server/test/{forwarding,postgres-away,postgres-lists}.test.ts",
  // They are about what happens inside of a run or a start, which one node does alone.
  "packages/server/test/{agent-files,agent-tools,hooks,mcp,memory,skills,sub-agents}.test.ts",
  "packages/server/test/{busybox-root,event-schema,model-endpoints,repository-parts}.test.ts",
  "packages/server/test/{sandbox-faults,start-agents}.test.ts",
  "packages/server/test/agent-server/{plugins,sub-agent-definitions,trace-context}.test.ts",
];

function project(
  name: string,
  nodes: string,
  { folder, only, exclude }: { folder: string; only: string[]; exclude: readonly string[] },
): TestProjectConfiguration[] {
  const common = { env: { TEST_NODES: nodes }, exclude: [...withoutServer, ...exclude] };
  const own = ownWorker.filter((path) => path.startsWith(folder));
  return [
    {
      extends: true,
      test: { ...common, name, include: only, isolate: false, exclude: [...common.exclude, ...own] },
    },
    { extends: true, test: { ...common, name: `${name}, own worker`, include: own } },
  ];
}

/** Tests of the API over PostgreSQL: `npm run test:nodes`. */
export default defineConfig({
  test: {
    globalSetup: ["packages/server/test/support/nodes/set-up.ts"],
    setupFiles: ["packages/server/test/support/check-events.ts"],
    pool: "forks",
    maxWorkers: 4,
    ...limits,
    sequence: { sequencer: LongestFirst },
    projects: [
      ...project("one node", "1", { folder: "packages/server/", only: include, exclude: [] }),
      ...project("three nodes", "3", {
        folder: "packages/server/test/",
        only: platforms,
        exclude: onOneNode,
      }),
    ],
  },
});
