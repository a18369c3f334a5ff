import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ConversationFilter, ConversationRow } from "../../src/store/conversation-store.ts";
import { emptyConfig } from "../../src/store/empty-config.ts";
import type { Store } from "../../src/store/store.ts";
import { conversationRow } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeConversations({ name, createTestStore }: StoreEngine): void {
  describe(`conversations on ${name}`, () => {
    let store: Store;
    let close: () => Promise<void>;
    const now = 1_800_000_000_000;

    beforeEach(async () => {
      ({ store, close } = await createTestStore({ clock: () => now }));
    });
    afterEach(() => close());

    async function create(change: Partial<ConversationRow>): Promise<string> {
      const row = conversationRow(change);
      await store.conversations.create(row);
      return row.id;
    }

    test("a conversation is read as it was created", async () => {
      const row = conversationRow({ title: null, parentId: randomUUID() });
      row.config.tags = { a: "b", __proto__: "c" };
      await store.conversations.create(row);
      expect(await store.conversations.get(row.id)).toEqual({
        ...row,
        updatedAt: row.createdAt,
        summary: { executionStatus: "idle", metrics: null, stats: null },
        head: null,
      });
      expect(await store.conversations.get(randomUUID())).toBeUndefined();
    });

    test("an id can be used once", async () => {
      const id = await create({ title: "first" });
      await expect(create({ id, title: "second" })).rejects.toMatchObject({
        code: "ConversationExists",
        status: 409,
      });
      expect((await store.conversations.get(id))!.title).toBe("first");
    });

    test("a search returns the newest first, page by page, equal times in a stable order", async () => {
      const ids: string[] = [];
      for (const createdAt of [1, 2, 2, 2, 3]) ids.push(await create({ createdAt }));
      const found: string[] = [];
      let pageId: string | undefined;
      do {
        const page = await store.conversations.search({ userId: "default" }, { limit: 2, pageId });
        found.push(...page.items.map((row) => row.id));
        pageId = page.nextPageId ?? undefined;
      } while (pageId);
      expect(found).toEqual(ids.toReversed());
    });

    test("filters apply to the search and, except for sub-conversations, to the count", async () => {
      const parentId = await create({ title: "Fix 100% of it", createdAt: 10, sandboxId: "one" });
      await create({ title: "fix_the bug", createdAt: 20, parentId });
      await create({ title: null, createdAt: 30 });
      await create({ title: "Fix", createdAt: 40, userId: "other" });
      const found = async (filter: Partial<ConversationFilter>) => {
        const { items } = await store.conversations.search({ userId: "default", ...filter }, { limit: 10 });
        return items.map((row) => row.createdAt);
      };
      const count = (filter: Partial<ConversationFilter>) =>
        store.conversations.count({ userId: "default", ...filter });
      expect(await found({})).toEqual([30, 20, 10]);
      expect(await found({ includeSubConversations: false })).toEqual([30, 10]);
      expect(await count({ includeSubConversations: false })).toBe(3);
      const cases: [Partial<ConversationFilter>, number[]][] = [
        [{ titleContains: "fix" }, [20, 10]],
        [{ titleContains: "100%it" }, [10]],
        [{ titleContains: "x_th" }, [20]],
        [{ titleContains: "'; DROP TABLE conversations; --" }, []],
        [{ createdAtGte: 20, createdAtLt: 30 }, [20]],
        [{ updatedAtGte: 20, updatedAtLt: 30 }, [20]],
        [{ sandboxId: "one" }, [10]],
        [{ userId: "nobody" }, []],
      ];
      for (const [filter, expected] of cases) {
        expect(await found(filter)).toEqual(expected);
        expect(await count(filter)).toBe(expected.length);
      }
      await expect(found({ titleContains: "%a".repeat(30_000) })).rejects.toThrow("title__contains");
    });

    test("an update changes its fields and the update time", async () => {
      const id = await create({ title: "old" });
      const before = (await store.conversations.get(id))!;
      await store.conversations.update(id, { title: "new" });
      expect(await store.conversations.get(id)).toEqual({ ...before, title: "new", updatedAt: now });
      await store.conversations.update(id, { config: { ...before.config, llmModel: "other" } });
      expect(await store.conversations.get(id)).toMatchObject({
        title: "new",
        config: { llmModel: "other" },
      });
      await store.conversations.update(id, { title: null });
      expect((await store.conversations.get(id))!.title).toBeNull();
      await expect(store.conversations.update(randomUUID(), { title: "x" })).rejects.toMatchObject({
        code: "ConversationNotFound",
      });
      await expect(store.conversations.remove(randomUUID())).rejects.toMatchObject({
        code: "ConversationNotFound",
      });
    });

    test("concurrent changes of different fields are all stored", async () => {
      const id = await create({});
      const { config } = (await store.conversations.get(id))!;
      const public_ = { public: true, selectedRepository: null };
      await Promise.all([
        store.conversations.update(id, { config: { llmProfile: "fast" } }),
        store.conversations.update(id, { config: public_ }),
        store.conversations.update(id, { config: { tags: { "a'b": 'c"$.d' } }, title: "new" }),
      ]);
      expect(await store.conversations.get(id)).toMatchObject({ title: "new" });
      expect((await store.conversations.get(id))!.config).toEqual({
        ...config,
        ...public_,
        llmProfile: "fast",
        tags: { "a'b": 'c"$.d' },
      });
    });

    test("children, and conversations of the same sandbox, are found", async () => {
      const parent = await create({ sandboxId: "one" });
      const lonely = await create({});
      const first = await create({ parentId: parent, createdAt: 1, sandboxId: "one" });
      const second = await create({ parentId: parent, createdAt: 2 });
      expect(await store.conversations.listChildren([parent, lonely])).toEqual(
        new Map([
          [parent, [first, second]],
          [lonely, []],
        ]),
      );
      const subAgent = await create({
        parentId: parent,
        createdAt: 3,
        config: { ...emptyConfig("/w"), task: { id: "task_1", subagent: "x" } },
      });
      const found = async (which?: { subAgents: boolean }) =>
        (await store.conversations.listChildren([parent], which)).get(parent);
      expect([await found(), await found({ subAgents: false })]).toEqual([
        [first, second, subAgent],
        [first, second],
      ]);
      expect((await store.conversations.listBySandbox("one")).map((row) => row.id)).toEqual([parent, first]);
    });
  });
}
