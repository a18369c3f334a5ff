import type { ModelResponse } from "@sandpiper/models/model";
import { emptyUsage, type Stats } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conversationRow, createTestStore } from "../../../test/support/store.ts";
import type { Store } from "../../store/store.ts";
import { SideCallUsage } from "./side-call-usage.ts";

let store: Store;
let close: () => Promise<void>;
beforeAll(async () => {
  ({ store, close } = await createTestStore());
});
afterAll(() => close());

const response: ModelResponse = {
  id: "r",
  text: "ok",
  toolCalls: [],
  usage: { ...emptyUsage("m"), per_turn_token: 1 },
  cost: 1,
  thinkingBlocks: [],
  finishReason: "stop",
};

test("concurrent side calls add up, and stored metrics are not kept in memory", async () => {
  const row = conversationRow();
  await store.conversations.create(row);
  const usage = new SideCallUsage(store.events);
  const stats = async (): Promise<Stats> =>
    (await store.conversations.get(row.id))!.summary.stats ?? { usage_to_metrics: {} };
  const call = async (usageId: string) => {
    usage.add(row.id, usageId, "m", response, await stats());
    await usage.write(row.id, await stats());
  };
  await Promise.all(["ask-agent", "title", "ask-agent", "ask-agent"].map(call));
  const costs = Object.entries((await stats()).usage_to_metrics).map(([id, metrics]) => [
    id,
    metrics.accumulated_cost,
  ]);
  expect(Object.fromEntries(costs)).toEqual({ "ask-agent": 3, title: 1 });
  expect(usage.getPending(row.id).size).toBe(0);
});

test("metrics that could not be stored count with the next call, and those of a deleted conversation are dropped", async () => {
  const failing = new SideCallUsage({ append: () => Promise.reject(new Error("disk full")) });
  failing.add("c", "title", "m", response, { usage_to_metrics: {} });
  await expect(failing.write("c", { usage_to_metrics: {} })).rejects.toThrow("disk full");
  expect(failing.getPending("c").get("title")).toMatchObject({ accumulated_cost: 1 });

  const usage = new SideCallUsage(store.events);
  const { id } = conversationRow();
  usage.add(id, "title", "m", response, { usage_to_metrics: {} });
  await expect(usage.write(id, { usage_to_metrics: {} })).rejects.toMatchObject({
    code: "ConversationNotFound",
  });
  expect(usage.getPending(id).size).toBe(0);
});
