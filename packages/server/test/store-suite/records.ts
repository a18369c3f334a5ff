import { randomUUID } from "node:crypto";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

import type { StartTaskRow } from "../../src/store/start-task-store.ts";
import type { Store } from "../../src/store/store.ts";
import { conversationRow } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeRecords({ name, createTestStore, openStore, newPlace }: StoreEngine): void {
  describe(`records on ${name}`, () => {
    /** Start tasks, sandboxes, settings documents and API keys as rows. */

    let store: Store;
    let close: () => Promise<void>;
    let now = 1000;

    beforeEach(async () => {
      now = 1000;
      ({ store, close } = await createTestStore({ clock: () => now }));
    });
    afterEach(() => close());

    function task(change: Partial<StartTaskRow> = {}): StartTaskRow {
      const ids = { id: randomUUID(), conversationId: randomUUID(), sandboxId: null };
      const rest = {
        userId: "default",
        status: "WORKING",
        detail: null,
        request: { title: "x", llm_model: null },
      } as const;
      return { ...ids, ...rest, createdAt: 1, updatedAt: 1, ...change };
    }

    function sandbox(change: Partial<SandboxRow> = {}): SandboxRow {
      const id = randomUUID();
      const rest = {
        userId: "default",
        specId: "host",
        status: "STARTING",
        statusDetail: null,
        incarnation: "1",
      } as const;
      const lifecycle = {
        spec: { id: "host", limits: { pids: 1 } },
        prepared: false,
        snapshotId: "snap-1",
        lastUsedAt: 2,
      };
      return { id, ...rest, sessionKey: `key of ${id}`, createdAt: 1, ...lifecycle, ...change };
    }

    test("a start task is stored with every step", async () => {
      const row = task();
      await store.startTasks.create(row);
      expect(await store.startTasks.get(row.id)).toEqual(row);
      const moved = await store.startTasks.update(row.id, { status: "WAITING_FOR_SANDBOX", sandboxId: "s" });
      expect(moved).toEqual({ ...row, status: "WAITING_FOR_SANDBOX", sandboxId: "s", updatedAt: now });
      await store.startTasks.update(row.id, { status: "ERROR", detail: "no room" });
      expect(await store.startTasks.get(row.id)).toMatchObject({
        status: "ERROR",
        detail: "no room",
        sandboxId: "s",
      });
      await expect(store.startTasks.update(randomUUID(), { status: "READY" })).rejects.toMatchObject({
        code: "StartTaskNotFound",
      });
    });

    test("start tasks are filtered by conversation and time, and sorted in four orders", async () => {
      const rows = [
        task({ createdAt: 1, updatedAt: 9 }),
        task({ createdAt: 2, updatedAt: 5 }),
        task({ createdAt: 3, updatedAt: 7 }),
      ];
      for (const row of [...rows, task({ userId: "other" })]) await store.startTasks.create(row);
      const search = async (
        sort: "CREATED_AT" | "CREATED_AT_DESC" | "UPDATED_AT" | "UPDATED_AT_DESC",
        filter = {},
      ) => {
        const { items } = await store.startTasks.search(
          { userId: "default", ...filter },
          { limit: 10, sort },
        );
        return items.map((row) => rows.findIndex((r) => r.id === row.id));
      };
      expect(await search("CREATED_AT")).toEqual([0, 1, 2]);
      expect(await search("CREATED_AT_DESC")).toEqual([2, 1, 0]);
      expect(await search("UPDATED_AT")).toEqual([1, 2, 0]);
      expect(await search("UPDATED_AT_DESC")).toEqual([0, 2, 1]);
      expect(await search("UPDATED_AT", { createdAtGte: 2 })).toEqual([1, 2]);
      expect(await search("CREATED_AT", { conversationId: rows[1]!.conversationId })).toEqual([1]);
      expect(await store.startTasks.count({ userId: "default", createdAtGte: 2 })).toBe(2);
      const page = await store.startTasks.search({ userId: "default" }, { limit: 2, sort: "CREATED_AT" });
      expect(page.nextPageId).toBe("2");
      expect(
        await store.startTasks.search({ userId: "default" }, { limit: 2, pageId: "2", sort: "CREATED_AT" }),
      ).toEqual({
        items: [rows[2]],
        nextPageId: null,
      });
    });

    test("open start tasks are those that are neither READY nor ERROR", async () => {
      const open = [task(), task({ status: "STARTING_CONVERSATION" })];
      for (const row of [...open, task({ status: "READY" }), task({ status: "ERROR" })])
        await store.startTasks.create(row);
      expect(await store.startTasks.listOpen()).toEqual(open);
    });

    test("a sandbox is found by id, also after a restart", async () => {
      const { place, remove } = await newPlace();
      const row = sandbox();
      const first = await openStore(place);
      await first.sandboxes.create(row);
      await first.close();
      const second = await openStore(place);
      expect(await second.sandboxes.get(row.id)).toEqual(row);
      await second.close();
      await remove();
    });

    test("sandboxes are updated, listed by user, newest first, and removed", async () => {
      const rows = [sandbox({ createdAt: 1 }), sandbox({ createdAt: 2 }), sandbox({ userId: "other" })];
      for (const row of rows) await store.sandboxes.create(row);
      await store.sandboxes.update(rows[0]!.id, { status: "ERROR", statusDetail: "gone", incarnation: "2" });
      await store.sandboxes.update(rows[1]!.id, {});
      const lifecycle = { spec: null, prepared: true, snapshotId: null, lastUsedAt: 9 };
      await store.sandboxes.update(rows[0]!.id, lifecycle);
      const changed = { ...rows[0]!, status: "ERROR", statusDetail: "gone", incarnation: "2", ...lifecycle };
      expect(await store.sandboxes.search({ userId: "default" }, { limit: 10 })).toEqual({
        items: [rows[1], changed],
        nextPageId: null,
      });
      expect(await store.sandboxes.search({ userId: "default" }, { limit: 1 })).toEqual({
        items: [rows[1]],
        nextPageId: "1",
      });
      expect(await store.sandboxes.all()).toEqual([changed, rows[1], rows[2]]);
      expect(await store.sandboxes.listByUser("default")).toEqual([changed, rows[1]]);
      await expect(store.sandboxes.update("none", { status: "PAUSED" })).rejects.toMatchObject({
        code: "SandboxNotFound",
      });
      await store.sandboxes.remove(rows[0]!.id);
      expect(await store.sandboxes.get(rows[0]!.id)).toBeUndefined();
    });

    test("a user keeps a limited number of sandboxes, also when they are created at the same time", async () => {
      const [others, kept] = [sandbox({ userId: "other" }), sandbox()];
      for (const row of [others, kept]) await store.sandboxes.create(row, 3);
      const rows = Array.from({ length: 6 }, () => sandbox());
      const results = await Promise.allSettled(rows.map((row) => store.sandboxes.create(row, 3)));
      const refusals = results.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
      expect(refusals).toHaveLength(4);
      for (const error of refusals) expect(error).toMatchObject({ code: "TooManySandboxes", status: 409 });
      expect((await store.sandboxes.search({ userId: "default" }, { limit: 10 })).items).toHaveLength(3);
      await store.sandboxes.remove(kept.id);
      await store.sandboxes.create(sandbox(), 3);
      await store.sandboxes.create(sandbox());
    });

    test("snapshots are listed by user, newest first, and removed", async () => {
      const row = { userId: "default", sandboxId: "s1", spec: { id: "host" } };
      const rows = [
        { ...row, id: "snap-1", createdAt: 1 },
        { ...row, id: "snap-2", createdAt: 2 },
        { ...row, id: "snap-3", createdAt: 3, userId: "other" },
      ];
      for (const one of rows) await store.snapshots.create(one);
      expect(await store.snapshots.search({ userId: "default" }, { limit: 1 })).toEqual({
        items: [rows[1]],
        nextPageId: "1",
      });
      expect(await store.snapshots.search({ userId: "default" }, { limit: 1, pageId: "1" })).toEqual({
        items: [rows[0]],
        nextPageId: null,
      });
      await store.snapshots.remove("snap-2");
      expect(await store.snapshots.get("snap-2")).toBeUndefined();
      expect(await store.snapshots.get("snap-3")).toEqual(rows[2]);
      expect(await store.snapshots.ids()).toEqual(["snap-1", "snap-3"]);
    });

    test("a user has a limited number of snapshots, also when they are created at the same time", async () => {
      const snapshot = (id: string, userId = "default") =>
        store.snapshots.create({ id, userId, sandboxId: "s1", spec: { id: "host" }, createdAt: 1 }, 2);
      await snapshot("of another user", "other");
      const ids = ["snap-1", "snap-2", "snap-3", "snap-4"];
      const results = await Promise.allSettled(ids.map((id) => snapshot(id)));
      const refusals = results.flatMap((one) => (one.status === "rejected" ? [one.reason] : []));
      expect(refusals).toHaveLength(2);
      for (const error of refusals) expect(error).toMatchObject({ code: "TooManySnapshots" });
      const { items } = await store.snapshots.search({ userId: "default" }, { limit: 10 });
      expect(items).toHaveLength(2);
      await store.snapshots.remove(items[0]!.id);
      await snapshot("snap-5");
    });

    test("concurrent changes of a conversation's context, skills and agent keep each other's result", async () => {
      const row = conversationRow();
      await store.conversations.create(row);
      const numbers = Array.from({ length: 12 }, (_, index) => `n${index}`);
      const known = { names: ["outdated"] };
      type Names = { names: string[] } | undefined;
      const add = (document: unknown, name: string) => ({
        names: [...((document as Names)?.names ?? []), name],
      });
      await Promise.all(
        numbers.flatMap((name) => [
          store.contexts.change(row.id, (document) => add(document, name)),
          store.contexts.activate(row.id, (names) => [...names, name]),
          store.agents.change(row.id, (document = {}) => ({ tools: [...(document.tools ?? []), name] })),
        ]),
      );
      const stored = await store.contexts.get(row.id);
      const sorted = (names: readonly string[]) => [...names].sort();
      expect(sorted((stored!.document as NonNullable<Names>).names)).toEqual(sorted(numbers));
      expect(sorted(stored!.activated)).toEqual(sorted(numbers));
      expect(sorted((await store.agents.get(row.id))!.tools!)).toEqual(sorted(numbers));
      // What the caller knows counts only when it still is stored.
      const after = await store.contexts.change(row.id, (document) => add(document, "last"), known);
      expect(after.names).toHaveLength(13);
      expect(await store.contexts.change(row.id, (document) => add(document, "more"), after)).toEqual({
        names: [...after.names, "more"],
      });
      const failure = { code: "ConversationNotFound" };
      await expect(store.contexts.change(randomUUID(), () => ({}))).rejects.toMatchObject(failure);
      await expect(store.contexts.activate(randomUUID(), () => [])).rejects.toMatchObject(failure);
      await expect(store.agents.change(randomUUID(), () => ({}))).rejects.toMatchObject(failure);
    });

    test("a settings document is the same object until it is replaced, and cannot be changed in place", async () => {
      expect(await store.settings.get("default")).toBeUndefined();
      const document = { a: { b: [1] } };
      await store.settings.change("default", () => document);
      const stored = (await store.settings.get("default"))!;
      expect(stored).toEqual(document);
      expect(await store.settings.get("default")).toBe(stored);
      document.a.b.push(2);
      expect(await store.settings.get("default")).toEqual({ a: { b: [1] } });
      expect(() => (stored.a as { b: number[] }).b.push(2)).toThrow();
      await store.settings.change("default", () => ({ c: 1 }));
      expect(await store.settings.get("default")).toEqual({ c: 1 });
      expect(await store.settings.get("other")).toBeUndefined();
    });

    test("settings documents survive a restart", async () => {
      const { place, remove } = await newPlace();
      const first = await openStore(place);
      await Promise.all([
        first.settings.change("default", () => ({ n: 1 })),
        first.settings.change("default", () => ({ n: 2 })),
      ]);
      expect(await first.settings.get("default")).toEqual({ n: 2 });
      await first.close();
      const second = await openStore(place);
      expect(await second.settings.get("default")).toEqual({ n: 2 });
      await second.close();
      await remove();
    });

    test("API keys are found by their text; a new key replaces the user's key of the same name", async () => {
      const first = await store.apiKeys.create({ userId: "default", name: "cli" }, "key one");
      now += 1;
      const second = await store.apiKeys.create({ userId: "default", name: "cli" }, "key two");
      now += 1;
      const other = await store.apiKeys.create({ userId: "somebody", name: "cli" }, "key three");
      expect(first.createdAt).toBe(1000);
      expect(await store.apiKeys.find("key one")).toBeUndefined();
      expect(await store.apiKeys.find("key two")).toEqual(second);
      expect(await store.apiKeys.list()).toEqual([second, other]);
      const moved = await store.apiKeys.create({ userId: "somebody", name: "moved" }, "key two");
      expect(await store.apiKeys.find("key two")).toEqual(moved);
      await store.apiKeys.remove(moved.id);
      expect(await store.apiKeys.find("key two")).toBeUndefined();
      expect(await store.apiKeys.list()).toEqual([other]);
    });
  });
}
