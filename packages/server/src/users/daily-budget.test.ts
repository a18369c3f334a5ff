import { afterEach, beforeEach, expect, test } from "vitest";
import { conversationRow, createTestStore, stateUpdate } from "../../test/support/store.ts";
import type { Store } from "../store/store.ts";
import { DailyBudget } from "./daily-budget.ts";

let now = 0;
let store: Store;
let close: () => Promise<void>;
beforeEach(async () => {
  now = Date.parse("2026-01-31T12:00:00Z");
  ({ store, close } = await createTestStore(() => now));
});
afterEach(() => close());

const stats = (agent: number, title = 0) =>
  stateUpdate("stats", {
    usage_to_metrics: {
      agent: { model_name: "m", accumulated_cost: agent, max_budget_per_task: null },
      title: { model_name: "m", accumulated_cost: title, max_budget_per_task: null },
    },
  });

async function conversation(userId = "ann", external = false): Promise<string> {
  const row = conversationRow({ userId });
  await store.conversations.create(external ? { ...row, config: { ...row.config, external } } : row);
  return row.id;
}

test("the costs of a user's stats records count for the UTC day on which they were stored, over all conversations", async () => {
  const [first, second, other] = [await conversation(), await conversation(), await conversation("bob")];
  await store.events.append(first, [stats(1)]);
  await store.events.append(first, [stats(1.5, 0.25)]);
  await store.events.append(first, [stats(1.5, 0.25)]);
  await store.events.append(second, [stats(2)]);
  await store.events.append(other, [stats(10)]);
  expect(await store.spending.getSpent("ann", "2026-01-31")).toBeCloseTo(3.75);
  expect(await store.spending.getSpent("bob", "2026-01-31")).toBe(10);
  now = Date.parse("2026-02-01T00:00:00Z");
  await store.events.append(first, [stats(2, 0.25)]);
  expect(await store.spending.getSpent("ann", "2026-01-31")).toBeCloseTo(3.75);
  expect(await store.spending.getSpent("ann", "2026-02-01")).toBeCloseTo(0.5);
  await store.conversations.remove(first);
  expect(await store.spending.getSpent("ann", "2026-01-31")).toBeCloseTo(3.75);
});

test("decreasing totals and costs that external agents report do not count", async () => {
  const [own, external] = [await conversation(), await conversation("ann", true)];
  await store.events.append(own, [stats(2)]);
  await store.events.append(own, [stats(1)]);
  await store.events.append(external, [stats(100)]);
  expect(await store.spending.getSpent("ann", "2026-01-31")).toBe(2);
});

test("a refused append spends nothing", async () => {
  const id = await conversation();
  const twice = { ...stats(1), event: { ...stats(1).event, id: "00000000-0000-4000-8000-000000000001" } };
  await expect(store.events.append(id, [twice, twice])).rejects.toThrow();
  expect(await store.spending.getSpent("ann", "2026-01-31")).toBe(0);
});

test("the budget is exhausted when it is reached, until the next day", async () => {
  const budget = new DailyBudget(store.spending, 2, () => now);
  const id = await conversation();
  await store.events.append(id, [stats(1.99)]);
  expect(await budget.getExhaustedReason("ann")).toBeUndefined();
  await store.events.append(id, [stats(2)]);
  expect(await budget.getExhaustedReason("ann")).toBe(
    "Today's budget of 2 USD for model calls is used up: send a message or run again from 2026-02-01T00:00:00Z on.",
  );
  expect(await budget.getExhaustedReason("bob")).toBeUndefined();
  expect(await new DailyBudget(store.spending, 0, () => now).getExhaustedReason("ann")).toBeUndefined();
  now = Date.parse("2026-02-01T00:00:00Z");
  expect(await budget.getExhaustedReason("ann")).toBeUndefined();
});
