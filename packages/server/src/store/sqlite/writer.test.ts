import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import {
  conversationRow,
  createTestStore,
  message,
  openStore,
  temporaryFolder,
} from "../../../test/support/store.ts";
import { WriterClient } from "./writer-client.ts";

test("a failing write in a shared commit is rolled back alone", async () => {
  const { store, close } = await createTestStore();
  const [first, second] = [conversationRow(), conversationRow()];
  await store.conversations.create(first);
  const texts = async (id: string) =>
    (await store.events.read(id, 0, 100)).map(
      ({ event }) => JSON.stringify(event).match(/"text":"(\w+)"/)![1],
    );
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
  expect([await texts(first.id), await texts(second.id)]).toEqual([["a", "b", "c", "h"], ["d"]]);
  expect((await store.events.read(first.id, 0, 100)).map(({ seq }) => seq)).toEqual([1, 2, 3, 4]);
  await close();
});

test("a database that another program keeps locked refuses all waiting writes at once, and accepts later ones", async () => {
  const { dir, remove } = temporaryFolder();
  const store = await openStore(dir);
  const row = conversationRow();
  await store.conversations.create(row);
  await store.close();
  const file = join(dir, "store", "sandpiper.db");
  const writer = await WriterClient.start(file, { busyMs: 300 });
  const other = new DatabaseSync(file);
  other.exec("BEGIN EXCLUSIVE");
  const update = () =>
    writer.run({ sql: "UPDATE conversations SET title = 'new' WHERE id = ?", parameters: [row.id] });
  const began = performance.now();
  const results = await Promise.allSettled(Array.from({ length: 50 }, update));
  expect(performance.now() - began).toBeLessThan(12_000);
  for (const result of results)
    expect(result).toMatchObject({ status: "rejected", reason: { code: "StorageBusy", status: 503 } });
  other.exec("COMMIT");
  expect(await update()).toBe(1);
  other.close();
  await writer.close();
  remove();
});
