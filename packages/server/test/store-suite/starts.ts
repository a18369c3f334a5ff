import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createRow } from "../../src/callbacks/rows.ts";
import { NewerStart, type StartParts, type StartTaskRow } from "../../src/store/start-task-store.ts";
import type { Store } from "../../src/store/store.ts";
import { conversationRow } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

const refused = { code: "ConversationExists", status: 409 };

/** What a start stores before its conversation. */
export function describeStarts({ name, newPlace, openStore, query }: StoreEngine): void {
  describe(`starts on ${name}`, () => {
    let place: string;
    let remove: () => Promise<void>;
    let store: Store;
    beforeEach(async () => {
      ({ place, remove } = await newPlace());
      store = await openStore(place);
    });
    afterEach(async () => {
      await store.close();
      await remove();
    });

    function start(change: Partial<StartTaskRow> = {}): { task: StartTaskRow; parts: StartParts } {
      const ids = { id: randomUUID(), conversationId: randomUUID(), sandboxId: randomUUID() };
      const state = { status: "WORKING", detail: null, request: {}, createdAt: 1, updatedAt: 1 } as const;
      const task = { ...ids, ...state, userId: "default", ...change };
      const { conversationId, userId } = task;
      const hook = { kind: "WebhookCallbackProcessor", url: "https://a.test", kinds: null } as const;
      return {
        task,
        parts: {
          secrets: { conversationId, userId, sandboxId: ids.sandboxId, values: { KEY: task.id } },
          callbacks: [{ ...createRow(userId, conversationId, hook), secret: `of ${task.id}` }],
        },
      };
    }

    const create = ({ task, parts }: ReturnType<typeof start>) => store.startTasks.create(task, parts);

    /** The ids of the starts whose task, secrets and callbacks are stored. */
    async function stored(conversationId: string): Promise<[string[], string[], string[]]> {
      const filter = { userId: "default", conversationId };
      const { items } = await store.startTasks.search(filter, { limit: 10, sort: "CREATED_AT" });
      const secrets = await store.conversationSecrets.get(conversationId);
      const callbacks = await store.callbacks.listByConversation(conversationId);
      return [
        items.map(({ id }) => id),
        secrets ? [secrets.values.KEY!] : [],
        callbacks.map(({ secret }) => secret!.slice(3)),
      ];
    }

    test("a start is stored only while its user has no newer start than it knows", async () => {
      const none = await store.startTasks.findOpen("default");
      expect(none).toEqual({ sandboxIds: [], newest: 0 });
      const [one, two, third] = [start(), start(), start({ userId: "other" })];
      await create(third);
      await store.startTasks.create(one.task, { newest: none.newest });
      const late = store.startTasks.create(two.task, { ...two.parts, newest: none.newest });
      await expect(late).rejects.toBeInstanceOf(NewerStart);
      expect(await stored(two.task.conversationId)).toEqual([[], [], []]);
      const { sandboxIds, newest } = await store.startTasks.findOpen("default");
      expect(sandboxIds).toEqual([one.task.sandboxId]);
      await store.startTasks.fail(one.task.id, "It failed.");
      // A start that is over may have left a sandbox.
      expect(await store.startTasks.findOpen("default")).toEqual({ sandboxIds: [], newest });
      await store.startTasks.create(two.task, { ...two.parts, newest });
      expect(await store.startTasks.get(two.task.id)).toEqual(two.task);
    });

    test("of starts at once that know of no other start, one is stored", async () => {
      const results = await Promise.allSettled(
        Array.from({ length: 5 }, () => store.startTasks.create(start().task, { newest: 0 })),
      );
      expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toBeInstanceOf(NewerStart);
    });

    test("a start stores its task, its secrets and its callbacks", async () => {
      const one = start();
      await create(one);
      const { id, conversationId } = one.task;
      expect(await store.startTasks.get(id)).toEqual(one.task);
      expect(await store.conversationSecrets.get(conversationId)).toMatchObject(one.parts.secrets!);
      expect(await store.callbacks.listByConversation(conversationId)).toEqual(one.parts.callbacks);
    });

    test.each(["start_tasks", "conversation_secrets", "callbacks"])(
      "a start that cannot be written to %s stores nothing",
      async (table) => {
        const one = start();
        await query(
          place,
          name === "SQLite"
            ? `CREATE TRIGGER refused BEFORE INSERT ON ${table} BEGIN SELECT RAISE(ABORT, 'refused'); END`
            : `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
               CREATE TRIGGER refused BEFORE INSERT ON ${table} FOR EACH ROW EXECUTE FUNCTION refuse()`,
        );
        await expect(create(one)).rejects.toThrow();
        expect(await stored(one.task.conversationId)).toEqual([[], [], []]);
        await query(place, `DROP TRIGGER refused${name === "SQLite" ? "" : ` ON ${table}`}`);
        await create(one);
        expect(await stored(one.task.conversationId)).toEqual(Array(3).fill([one.task.id]));
      },
    );

    test("of many starts of one conversation at once, one is stored, with only its own parts", async () => {
      const { conversationId } = start().task;
      const starts = Array.from({ length: 10 }, () => start({ conversationId }));
      const other = await openOther();
      const outcomes = await Promise.allSettled(
        starts.map(({ task, parts }, index) =>
          (index % 2 === 0 ? store : other).startTasks.create(task, parts),
        ),
      );
      const failed = outcomes.filter((outcome) => outcome.status === "rejected");
      expect(failed).toHaveLength(9);
      for (const { reason } of failed) expect(reason).toMatchObject(refused);
      const winner = starts[outcomes.findIndex(({ status }) => status === "fulfilled")]!;
      expect(await stored(conversationId)).toEqual(Array(3).fill([winner.task.id]));
    });

    test("a start that was planned before another one ended leaves nothing at its conversation", async () => {
      const first = start();
      const { conversationId, sandboxId } = first.task;
      await create(first);
      await store.conversations.create(conversationRow({ id: conversationId, sandboxId: sandboxId! }));
      await store.startTasks.update(first.task.id, { status: "READY" });
      const late = start({ conversationId });
      await expect(create(late)).rejects.toMatchObject(refused);
      expect(await stored(conversationId)).toEqual(Array(3).fill([first.task.id]));
    });

    test("a start after a failed one has the id, and nothing of what the failed one left", async () => {
      const failed = start();
      await create(failed);
      await store.startTasks.update(failed.task.id, { status: "ERROR" });
      const { conversationId } = failed.task;
      const again = start({ conversationId });
      await create(again);
      expect(await stored(conversationId)).toEqual([
        [failed.task.id, again.task.id],
        [again.task.id],
        [again.task.id],
      ]);
    });

    test("a start that begins when a conversation with its id is removed keeps what it stores", async () => {
      const other = await openOther();
      for (let round = 0; round < 20; round++) {
        const again = start();
        const { id, conversationId } = again.task;
        await store.conversations.create(conversationRow({ id: conversationId }));
        let isStored = false;
        const begin = async () => {
          while (!isStored)
            isStored = await other.startTasks.create(again.task, again.parts).then(
              () => true,
              () => false,
            );
        };
        await Promise.all([store.conversations.remove(conversationId), begin()]);
        expect(await stored(conversationId)).toEqual(Array(3).fill([id]));
      }
    });

    test("a store of an older version keeps the oldest of several open starts of one conversation", async () => {
      await query(place, "DROP INDEX start_tasks_open_once");
      const [oldest, other] = [start(), start()];
      const { conversationId } = oldest.task;
      other.task.conversationId = conversationId;
      for (const { task } of [oldest, other]) await store.startTasks.create(task);
      await store.close();
      await query(
        place,
        name === "SQLite" ? "PRAGMA user_version = 10" : "DELETE FROM schema_migrations WHERE version > 1",
      );
      store = await openStore(place);
      expect(await store.startTasks.listOpen()).toEqual([oldest.task]);
      expect((await store.startTasks.get(other.task.id))!.detail).toContain("same conversation id");
      await expect(create(start({ conversationId }))).rejects.toMatchObject(refused);
    });

    /** A second server; with SQLite there is only one. */
    async function openOther(): Promise<Store> {
      if (name === "SQLite") return store;
      const other = await openStore(place);
      const close = remove;
      remove = async () => {
        await other.close();
        await close();
      };
      return other;
    }
  });
}
