import { listed } from "@sandpiper/agent/loop/records";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conversationRow, createTestStore, message, stateUpdate } from "../../../test/support/store.ts";
import { SubAgentTurn } from "./sub-agent-turn.ts";

let store: Awaited<ReturnType<typeof createTestStore>>["store"];
let close: () => Promise<void>;
beforeAll(async () => {
  ({ store, close } = await createTestStore());
});
afterAll(() => close());

test("a sub-agent continues when its pause becomes durable after its parent has continued", async () => {
  const parent = conversationRow();
  const child = conversationRow({ parentId: parent.id });
  for (const row of [parent, child]) await store.conversations.create(row);
  const status = async (id: string) => (await store.conversations.get(id))!.summary.executionStatus;
  const becomes = (id: string, value: "running" | "paused" | "finished") =>
    store.events.append(id, [stateUpdate("execution_status", value)]);
  const pauseAsked = Promise.withResolvers<void>();
  const parentGoesOn = Promise.withResolvers<void>();
  const deps = {
    store,
    runner: { abort: async () => {} },
    commands: {
      async pause(id: string) {
        pauseAsked.resolve();
        await parentGoesOn.promise;
        await store.events.append(id, [
          listed({ kind: "PauseEvent", source: "user" }),
          stateUpdate("execution_status", "paused"),
        ]);
      },
      async run(id: string) {
        await becomes(id, "running");
        await becomes(id, "finished");
      },
    },
  };

  await becomes(parent.id, "paused");
  const turn = new SubAgentTurn(
    deps,
    (await store.conversations.get(parent.id))!,
    child.id,
    newId(),
    new AbortController().signal,
  );
  const observation = turn.waitForResult(async () => {
    await store.events.append(child.id, [message("Work"), stateUpdate("execution_status", "running")]);
  });
  await pauseAsked.promise;
  await becomes(parent.id, "running");
  parentGoesOn.resolve();
  expect(await observation).toMatchObject({ status: "completed", is_error: false });
  expect(await status(child.id)).toBe("finished");
});
