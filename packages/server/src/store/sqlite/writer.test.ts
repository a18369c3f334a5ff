import { expect, test } from "vitest";
import { conversationRow, createTestStore, message } from "../testing.ts";

test("a write that fails beside others in one commit takes none of them along, and leaves nothing of itself", async () => {
  const { store, close } = await createTestStore();
  const [first, second] = [conversationRow(), conversationRow()];
  await store.conversations.create(first);
  const texts = (id: string) =>
    store.events.read(id, 0, 100).map(({ event }) => JSON.stringify(event).match(/"text":"(\w+)"/)![1]);
  // Given in one turn, they travel in one message and share a transaction.
  const results = await Promise.allSettled([
    store.events.append(first.id, [message("a")]),
    store.conversations.create(first),
    store.events.append(first.id, [message("b"), message("c")]),
    store.conversations.create(second),
    store.events.append("unknown", [message("x")]),
    store.events.append(second.id, [message("d")]),
    // The id of the second event is taken when the first one is already written.
    store.events.append(first.id, [message("e"), message("f", "taken"), message("g", "taken")]),
    store.events.append(first.id, [message("h")]),
  ]);
  expect(results.map(({ status }) => status)).toEqual([
    ...["fulfilled", "rejected", "fulfilled", "fulfilled", "rejected", "fulfilled", "rejected", "fulfilled"],
  ]);
  expect([texts(first.id), texts(second.id)]).toEqual([["a", "b", "c", "h"], ["d"]]);
  expect(store.events.read(first.id, 0, 100).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  await close();
});
