import { stub } from "@sandpiper/core/test/support/stub";
import { contentText } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ServiceBench } from "../../../test/support/sandbox-service.ts";
import { ConversationWorkspace } from "./workspace.ts";

const idle = { pauseAfterMs: 1_000, hibernateAfterMs: 500, deleteAfterMs: 0 };

let bench: ServiceBench;
let sandboxId: string;

beforeEach(async () => {
  bench = await new ServiceBench().open();
  sandboxId = (await (await bench.serve({ idle })).create("me")).id;
});
afterEach(() => bench.end());

function open(number: number, isAwake = () => false): ConversationWorkspace {
  const id = `00000000-0000-4000-8000-00000000000${number}`;
  return new ConversationWorkspace(
    {
      ...{ sandboxes: bench.service, isAwake, epoch: () => 1, onTerminal: () => {} },
      identity: async () => ({ name: "Ann", email: "ann@example.com" }),
    },
    stub({ id, sandboxId, config: { workingDir: "/workspace/project" } }),
  );
}

async function run(workspace: ConversationWorkspace, command: string, timeout = 20): Promise<string> {
  const action = { kind: "TerminalAction", command, is_input: false, reset: false, timeout } as const;
  return contentText((await (await workspace.terminal()).run(action, AbortSignal.timeout(50_000))).content);
}

async function hibernate(): Promise<void> {
  await bench.pass(1_000);
  await bench.pass(500);
  expect(await bench.state(sandboxId)).toBe("stopped");
}

test("shells keep their directory and variables across a hibernation and a restart of the server", async () => {
  const [one, two] = [open(1), open(2)];
  await run(one, "mkdir -p src && cd src && export MODE='a b'");
  await run(two, "cd /tmp && export MODE=two");
  await hibernate();
  expect(await run(one, 'pwd; echo "$MODE"')).toBe("/workspace/project/src\na b\n");
  expect(await run(two, 'pwd; echo "$MODE"')).toBe("/tmp\ntwo\n");

  await run(one, "cd .. && export MODE=second");
  await hibernate();
  one.close();
  two.close();
  await bench.service.close();
  await bench.serve({ idle });
  const again = open(1);
  expect(await run(again, 'pwd; echo "$MODE"')).toBe("/workspace/project\nsecond\n");
  again.close();
});

test("commands that wait for the shell at the same time share it, and each runs once", async () => {
  const workspace = open(1);
  const outputs = await Promise.all([
    run(workspace, "SHARED=yes; echo one >>/tmp/ran; echo one"),
    run(workspace, 'echo two >>/tmp/ran; echo "two $SHARED"'),
  ]);
  expect(outputs).toEqual(["one\n", "two yes\n"]);
  expect(await run(workspace, "cat /tmp/ran")).toBe("one\ntwo\n");
  workspace.close();
});

test("a snapshot does not change shells, and a fork's shell starts in the same directory", async () => {
  const workspace = open(1);
  await run(workspace, "cd /tmp && export MODE=kept");
  const snapshot = await bench.service.snapshots.create("me", sandboxId);
  expect(await run(workspace, 'pwd; echo "$MODE"')).toBe("/tmp\nkept\n");
  workspace.close();
  sandboxId = (await bench.service.create("me", undefined, { snapshotId: snapshot.id })).id;
  const fork = open(1);
  expect(await run(fork, 'pwd; echo "$MODE"')).toBe("/tmp\nkept\n");
  fork.close();
});

test("a current run and a foreground command keep the sandbox awake until the workspace is closed", async () => {
  let awake = true;
  const workspace = open(1, () => awake);
  await workspace.sandbox();
  await bench.pass(5_000);
  awake = false;
  await run(workspace, "sleep 300", 0.1);
  await bench.pass(5_000);
  expect((await bench.service.get("me", sandboxId))?.status).toBe("RUNNING");
  workspace.close();
  await bench.pass(5_000);
  expect((await bench.service.get("me", sandboxId))?.status).toBe("PAUSED");
});
