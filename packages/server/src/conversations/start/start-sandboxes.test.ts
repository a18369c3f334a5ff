import { stub } from "@sandpiper/core/test/support/stub";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { afterEach, beforeEach, expect, test } from "vitest";
import { altered, ServiceBench, sh } from "../../../test/support/sandbox-service.ts";
import type { Start } from "./start-plans.ts";
import { StartSandboxes } from "./start-sandboxes.ts";

let bench: ServiceBench;
let start: Start;
let places: StartSandboxes;
let closing: AbortController;
/** Awaited before the engine begins a command. */
let gate: PromiseWithResolvers<void>;
let begun: PromiseWithResolvers<void>;

beforeEach(async () => {
  bench = await new ServiceBench().open();
  gate = Promise.withResolvers();
  gate.resolve();
  begun = Promise.withResolvers();
  const service = await bench.serve({}, (one) =>
    altered(one, {
      async exec(id, command) {
        begun.resolve();
        await gate.promise;
        return one.exec(id, command);
      },
    }),
  );
  const sandboxId = (await service.create("me")).id;
  closing = new AbortController();
  const { signal } = closing;
  start = stub({ task: stub({ id: "task" }), conversation: stub({ sandboxId }), signal });
  places = new StartSandboxes({
    sandboxes: service,
    workspaces: stub({}),
    tasks: stub({ update: async () => {} }),
  });
  await places.wait(start);
});
afterEach(() => bench.end());

const id = () => start.conversation.sandboxId;
const status = async () => (await bench.service.get("me", id()))?.status;
/** A wake-up would begin in the next turns; operations are serialised. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
  await bench.service.pause("me", id());
}

/** Begins to read just before a pause, so that the engine rejects the command. */
async function readUnderPause(sandbox: Sandbox): Promise<{ text: Promise<string> }> {
  gate = Promise.withResolvers();
  const text = sh(sandbox, "echo read");
  text.catch(() => {});
  await begun.promise;
  await bench.service.pause("me", id());
  const changes: string[] = [];
  const leave = bench.service.onChange((row) => void changes.push("status" in row ? row.status : "gone"));
  gate.resolve();
  await settle();
  leave();
  expect([await status(), changes]).toEqual(["PAUSED", []]);
  return { text };
}

test("what a start reads after READY does not wake a sandbox that was paused in that moment", async () => {
  const { text } = await readUnderPause(await places.watch(start));
  await bench.service.resume("me", id());
  expect(await text).toBe("read\n");
});

test("a start that finds its sandbox paused waits until it is resumed or deleted", async () => {
  await bench.service.pause("me", id());
  const resumed = places.watch(start);
  await settle();
  expect(await status()).toBe("PAUSED");
  await bench.service.resume("me", id());
  const { text } = await readUnderPause(await resumed);
  const late = places.watch(start);
  late.catch(() => {});
  await bench.service.remove("me", id());
  await expect(text).rejects.toThrow(/sandbox/);
  await expect(late).rejects.toThrow(/There is no sandbox/);
});

test("the end of the server ends the wait for a paused sandbox", async () => {
  await bench.service.pause("me", id());
  const watched = places.watch(start);
  watched.catch(() => {});
  closing.abort(new Error("The server is ending."));
  await expect(watched).rejects.toThrow("The server is ending.");
  expect(await status()).toBe("PAUSED");
});
