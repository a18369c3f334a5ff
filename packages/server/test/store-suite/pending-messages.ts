import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { conversationRow, message } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describePendingMessages({ name, createTestStore, openStore, newPlace }: StoreEngine): void {
  describe(`pending messages on ${name}`, () => {
    let store: Store;
    let close: () => Promise<void>;
    beforeAll(async () => {
      ({ store, close } = await createTestStore());
    });
    afterAll(() => close());

    const pending = (conversationId: string, text: string) => ({
      id: randomUUID(),
      userId: "default",
      conversationId,
      content: [{ type: "text" as const, text, cache_prompt: false }],
      createdAt: 1,
    });

    test("a pending message is removed by the event that delivers it, and is not delivered twice", async () => {
      const { id } = await created(store);
      const [first, second] = [pending(id, "one"), pending(id, "two")];
      await Promise.all([store.pendingMessages.create(first), store.pendingMessages.create(second)]);
      expect(await store.pendingMessages.listByConversation(id)).toEqual([first, second]);
      expect(await store.pendingMessages.listConversations()).toEqual([id]);

      const deliveries = await Promise.allSettled(
        [first, first, second].map((row) => store.events.append(id, [message("x")], { delivers: row.id })),
      );
      expect(deliveries.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect(deliveries[1]).toMatchObject({ reason: { code: "MessageDelivered" } });
      expect(await store.events.count(id)).toBe(2);
      expect(await store.pendingMessages.listByConversation(id)).toEqual([]);
    });

    test("a pending message stays when its event cannot be stored", async () => {
      const row = pending(randomUUID(), "waits");
      await store.pendingMessages.create(row);
      const append = store.events.append(row.conversationId, [message("x")], { delivers: row.id });
      await expect(append).rejects.toMatchObject({ code: "ConversationNotFound" });
      expect(await store.pendingMessages.listByConversation(row.conversationId)).toEqual([row]);
      await store.pendingMessages.removeByConversation(row.conversationId);
      expect(await store.pendingMessages.listByConversation(row.conversationId)).toEqual([]);
    });

    test("pending messages keep their order over a restart", async () => {
      const { place, remove } = await newPlace();
      const before = await openStore(place);
      await before.conversations.create(conversationRow({ id: "c" }));
      const rows = Array.from({ length: 10 }, (_, index) => pending("c", `m${index}`));
      for (const row of rows) await before.pendingMessages.create(row);
      await before.close();
      const after = await openStore(place);
      expect(await after.pendingMessages.listByConversation("c")).toEqual(rows);
      await after.close();
      await remove();
    });

    async function created(store: Store) {
      const row = conversationRow();
      await store.conversations.create(row);
      return row;
    }
  });
}
