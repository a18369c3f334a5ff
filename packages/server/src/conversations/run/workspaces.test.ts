import { stub } from "@sandpiper/core/test/support/stub";
import { contentText } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ServiceBench } from "../../../test/support/sandbox-service.ts";
import { Workspaces } from "./workspaces.ts";

const idle = { pauseAfterMs: 1_000, hibernateAfterMs: 500, deleteAfterMs: 0 };
const id = "00000000-0000-4000-8000-000000000001";

let bench: ServiceBench;
let sandboxId: string;
let awake: boolean;
let unloaded: string[];
let workspaces: Workspaces;

beforeEach(async () => {
  bench = await new ServiceBench().open();
  sandboxId = (await (await bench.serve({ idle })).create("me")).id;
  awake = false;
  unloaded = [];
  workspaces = new Workspaces({
    sandboxes: bench.service,
    settings: stub({ agent: async () => stub({ gitUserName: "Ann", gitUserEmail: "ann@example.com" }) }),
    isAwake: () => awake,
    epoch: () => 1,
    find: async () => undefined,
    onUnload: (one) => void unloaded.push(one),
  });
});
afterEach(async () => {
  workspaces.close();
  await bench.end();
});

const open = () =>
  workspaces.getOrCreate(
    stub({
      id,
      userId: "me",
      sandboxId,
      config: { workingDir: "/workspace/project" },
    }),
  );

async function run(command: string): Promise<string> {
  const action = { kind: "TerminalAction", command, is_input: false, reset: false, timeout: 20 } as const;
  return contentText((await (await open().terminal()).run(action, AbortSignal.timeout(50_000))).content);
}

test("a resting conversation is unloaded when its shell has ended, and its next shell has the same state", async () => {
  const first = open();
  await run("mkdir -p src && cd src && export MODE=kept; sleep 600 & true");
  workspaces.unload(0);
  expect(open()).toBe(first);
  await bench.pass(1_000);
  await bench.pass(500);
  expect(await bench.state(sandboxId)).toBe("stopped");
  workspaces.unload(60_000);
  expect(unloaded).toEqual([]);
  workspaces.unload(0);
  expect(unloaded).toEqual([id]);
  expect(workspaces.get(id)).toBeUndefined();
  expect(await run('pwd; echo "$MODE"')).toBe("/workspace/project/src\nkept\n");
});

test("a running or blocked workspace is not unloaded", async () => {
  const workspace = open();
  const release = workspace.block();
  workspaces.unload(0);
  expect(workspaces.get(id)).toBe(workspace);
  release();
  await workspace.sandbox();
  awake = true;
  workspaces.unload(0);
  expect(workspaces.get(id)).toBe(workspace);
  awake = false;
  workspaces.unload(0);
  expect(workspaces.get(id)).toBeUndefined();
});
