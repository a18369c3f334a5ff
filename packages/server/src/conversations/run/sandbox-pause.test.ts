import { stub } from "@sandpiper/core/test/support/stub";
import { contentText } from "@sandpiper/wire";
import { afterEach, beforeEach, expect, test } from "vitest";
import { altered, ServiceBench } from "../../../test/support/sandbox-service.ts";
import { handleSandboxPauses } from "./sandbox-pause.ts";
import type { ConversationWorkspace } from "./workspace.ts";
import { Workspaces } from "./workspaces.ts";

let bench: ServiceBench;
let sandboxId: string;
let awake: boolean;
let workspaces: Workspaces;
/** The engine begins commands only when this resolves. */
let late: PromiseWithResolvers<void>;
/** The number of commands that the engine received. */
let commands: number;

beforeEach(async () => {
  bench = await new ServiceBench().open();
  late = Promise.withResolvers();
  late.resolve();
  commands = 0;
  const service = await bench.serve({}, (one) =>
    altered(one, {
      async exec(id, command) {
        commands++;
        await late.promise;
        return one.exec(id, command);
      },
    }),
  );
  sandboxId = (await service.create("me")).id;
  awake = true;
  workspaces = new Workspaces({
    sandboxes: service,
    settings: stub({ agent: async () => stub({ gitUserName: "Ann", gitUserEmail: "ann@example.com" }) }),
    isAwake: () => awake,
    epoch: () => 1,
    find: async () => undefined,
    onUnload: () => {},
  });
  handleSandboxPauses({
    sandboxes: service,
    conversations: { listBySandbox: async () => [] },
    workspaces,
    pause: async () => {},
    abortCall: () => true,
    announceEnd: () => {},
  });
});
afterEach(async () => {
  workspaces.close();
  await bench.end();
});

const open = (): ConversationWorkspace =>
  workspaces.getOrCreate(
    stub({
      id: "00000000-0000-4000-8000-000000000001",
      userId: "me",
      sandboxId,
      config: { workingDir: "/workspace/w" },
    }),
  );

async function run(command: string): Promise<string> {
  const action = { kind: "TerminalAction", command, is_input: false, reset: false, timeout: 20 } as const;
  return contentText((await (await open().terminal()).run(action, AbortSignal.timeout(50_000))).content);
}

const status = async () => (await bench.service.get("me", sandboxId))?.status;

/** Begins a command just before the pause, so that the engine rejects it, or during the pause. */
async function beginUnderPause(moment: "before" | "during" = "before"): Promise<{ result: Promise<string> }> {
  await run("true");
  late = Promise.withResolvers();
  const before = commands;
  // A new shell is another command for the engine.
  open().closeTerminal();
  const paused = moment === "during" ? bench.service.pause("me", sandboxId) : undefined;
  const result = run("echo done");
  result.catch(() => {});
  if (moment === "before") await expect.poll(() => commands).toBeGreaterThan(before);
  await (paused ?? bench.service.pause("me", sandboxId));
  late.resolve();
  let woken = false;
  const leave = bench.service.onChange((change) => {
    woken ||= "status" in change && change.status === "RUNNING";
  });
  // A wake-up would begin in the next turns, and operations are serialised.
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  await bench.service.pause("me", sandboxId);
  leave();
  expect([await status(), woken]).toEqual(["PAUSED", false]);
  return { result };
}

test.each(["before", "during"] as const)(
  "a call that begins %s a pause of its sandbox waits until the sandbox is resumed",
  async (moment) => {
    const { result } = await beginUnderPause(moment);
    await bench.service.resume("me", sandboxId);
    expect(await result).toBe("done\n");
  },
);

test("a waiting call continues when a message wakes the conversation", async () => {
  const { result } = await beginUnderPause();
  open().pauseGate.open();
  expect(await result).toBe("done\n");
  expect(await status()).toBe("RUNNING");
});

test("a waiting call fails when its run is aborted, and the next run wakes the sandbox", async () => {
  const { result } = await beginUnderPause();
  open().pauseGate.cancel();
  await expect(result).rejects.toThrow("The sandbox is paused.");
  expect(await status()).toBe("PAUSED");
  open().pauseGate.open();
  expect(await run("echo next")).toBe("next\n");
});

test("the next run of a resting conversation wakes a paused sandbox, and a user's call wakes it at any time", async () => {
  await run("true");
  awake = false;
  await bench.service.pause("me", sandboxId);
  awake = true;
  expect(await run("echo woken")).toBe("woken\n");
  await bench.service.pause("me", sandboxId);
  await open().sandbox();
  expect(await status()).toBe("RUNNING");
});
