import { expect, test } from "vitest";
import { conversationRow, createTestStore, message, stateUpdate } from "../../../test/support/store.ts";
import { RunQueue, sortForWake } from "./run-queue.ts";

test("conversations over the limit wait in order, separately for each user", () => {
  const queue = new RunQueue(2);
  expect(["a", "b", "c", "d", "c"].map((id) => queue.acquire("ann", id))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ]);
  expect(queue.acquire("bob", "x")).toBe(true);
  expect(queue.isWaiting("ann", "c")).toBe(true);
  expect(queue.next("ann")).toBeUndefined();
  queue.release("ann", "a");
  expect(queue.next("ann")).toBe("c");
  // The conversation has the slot already, so a newcomer cannot take the slot before the run
  // begins.
  expect(queue.isWaiting("ann", "c")).toBe(false);
  expect(queue.acquire("ann", "newcomer")).toBe(false);
  queue.release("ann", "newcomer");
  expect(queue.acquire("ann", "c")).toBe(true);
  expect(queue.next("ann")).toBeUndefined();
  queue.release("ann", "d");
  queue.release("ann", "b");
  queue.release("ann", "c");
  expect(queue.next("ann")).toBeUndefined();
});

test("a conversation with a slot acquires it again, and 0 means no limit", () => {
  const queue = new RunQueue(1);
  expect([queue.acquire("ann", "a"), queue.acquire("ann", "a")]).toEqual([true, true]);
  const open = new RunQueue(0);
  for (let index = 0; index < 1_000; index++) expect(open.acquire("ann", `${index}`)).toBe(true);
  expect(open.next("ann")).toBeUndefined();
});

test("after a restart running conversations come first, then the waiting ones in order", async () => {
  let now = 1_700_000_000_000;
  const { store, close } = await createTestStore(() => now++);
  const running = stateUpdate("execution_status", "running");
  const ids = ["active late", "waits second", "waits first", "active early"];
  const rows = ids.map((title) => conversationRow({ title }));
  for (const row of rows) await store.conversations.create(row);
  const [late, second, first, early] = rows.map(({ id }) => id) as [string, string, string, string];
  for (const id of [early, late]) await store.events.append(id, [message("go"), running]);
  await store.events.append(first, [message("go"), running]);
  await store.events.append(second, [message("go"), running]);
  for (const id of [early, late]) await store.events.append(id, [message("a step of the agent")]);
  const sorted = await sortForWake(await store.conversations.listRunning(), store.events);
  const order = sorted.map(({ title }) => title);
  expect(order).toEqual(["active early", "active late", "waits first", "waits second"]);
  await close();
});
