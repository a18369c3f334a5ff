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

test("calls beside each other that end at the same time all count, and nothing of them is kept once it is stored", async () => {
  const row = conversationRow();
  await store.conversations.create(row);
  const usage = new SideCallUsage(store.events);
  const stats = (): Stats => store.conversations.get(row.id)!.summary.stats ?? { usage_to_metrics: {} };
  const call = (usageId: string) => {
    usage.add(row.id, usageId, "m", response, stats());
    return usage.write(row.id, stats());
  };
  await Promise.all(["ask-agent", "title", "ask-agent", "ask-agent"].map(call));
  const costs = Object.entries(stats().usage_to_metrics).map(([id, metrics]) => [
    id,
    metrics.accumulated_cost,
  ]);
  expect(Object.fromEntries(costs)).toEqual({ "ask-agent": 3, title: 1 });
  expect(usage.getPending(row.id).size).toBe(0);
});

test("what could not be stored counts with the next call, and what belongs to no conversation is forgotten", async () => {
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
