import type { ModelCall } from "@sandpiper/models/recording/model-call";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { conversationRow, message } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeModelCalls({ name, createTestStore }: StoreEngine): void {
  describe(`model calls on ${name}`, () => {
    let store: Store;
    let close: () => Promise<void>;
    const row = conversationRow();

    beforeEach(async () => {
      ({ store, close } = await createTestStore());
      await store.conversations.create(row);
    });
    afterEach(() => close());

    function call(change: Partial<ModelCall> = {}): ModelCall {
      const failure = { code: "ModelFailed", message: "no" };
      return {
        usageId: "agent",
        model: "openai/m",
        atSeq: 0,
        first: true,
        startedAt: 5,
        latency: 7,
        failure,
        ...change,
      };
    }

    test("model calls are stored in order with the events that they produced, and removed with their conversation", async () => {
      const calls = [call(), call({ usageId: "condenser", atSeq: 1 })];
      await store.events.append(row.id, [message("one"), message("two")], { calls });
      await store.events.append(row.id, [], { calls: [call({ usageId: "title" })] });
      const stored = await store.modelCalls.listByConversation(row.id, 0, 10);
      expect(stored.map(({ usageId, storedSeq }) => [usageId, storedSeq])).toEqual([
        ["agent", 2],
        ["condenser", 2],
        ["title", 2],
      ]);
      expect(stored[0]).toEqual({ ...call(), number: stored[0]!.number, storedSeq: 2 });
      expect(await store.modelCalls.listByConversation(row.id, stored[0]!.number, 1)).toEqual([stored[1]]);
      await store.conversations.remove(row.id);
      expect(await store.modelCalls.listByConversation(row.id, 0, 10)).toEqual([]);
    });

    test("a model call is not stored when its events cannot be stored", async () => {
      const refused = store.events.append(row.id, [message("one")], { calls: [call()], delivers: "gone" });
      await expect(refused).rejects.toThrow("already been delivered");
      expect(await store.modelCalls.listByConversation(row.id, 0, 10)).toEqual([]);
    });

    test("the tools of the agent's last call are found by their digest, regardless of side calls", async () => {
      expect(await store.modelCalls.lastTools(row.id)).toBeUndefined();
      const digests = { system: "s", tools: "t", messages: "m" };
      const prompt = { system: [], messages: [], tools: [] };
      await store.events.append(row.id, [], {
        calls: [call({ digests }), call({ usageId: "condenser", prompt })],
      });
      expect(await store.modelCalls.lastTools(row.id)).toBe("t");
    });
  });
}
