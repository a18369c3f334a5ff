import { stub } from "@sandpiper/core/test/support/stub";
import { afterAll, beforeAll, expect, test } from "vitest";
import { conversationRow, createTestStore, message } from "../../../test/support/store.ts";
import type { Store } from "../../store/store.ts";
import { Openings } from "./openings.ts";

let store: Store;
let close: () => Promise<void>;
beforeAll(async () => {
  ({ store, close } = await createTestStore());
});
afterAll(() => close());

test("of first messages that come at once, one gets the opening, and the others follow it", async () => {
  const created = conversationRow();
  await store.conversations.create(created);
  const row = (await store.conversations.get(created.id))!;
  const openings = new Openings({
    store,
    knowledge: stub({ loadMemory: async () => {}, systemPrompt: async () => message("prompt").event }),
    toolsets: stub({ forConversation: () => stub({ tools: Promise.resolve([]) }) }),
    mcp: stub({ prepare: async () => [], linger() {} }),
    runs: stub({ isAwake: () => false }),
    workspaces: stub({}),
  });
  const send = (text: string) =>
    openings.append(row, async ({ id }, opening) => {
      const prompt = opening && { listed: true, event: opening.prompt };
      await store.events.append(id, [...(prompt ? [prompt] : []), message(text)]);
    });
  await Promise.all([send("one"), send("two"), send("three")]);
  await send("four");
  const texts = (await store.events.read(row.id, 0, 10)).map(({ json }) => JSON.parse(json));
  expect(texts.map((event) => event.llm_message.content[0].text)).toEqual([
    "prompt",
    "one",
    "two",
    "three",
    "four",
  ]);
});
