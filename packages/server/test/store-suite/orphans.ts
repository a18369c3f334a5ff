import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { StartTaskRow } from "../../src/store/start-task-store.ts";
import type { Store } from "../../src/store/store.ts";
import { conversationRow } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeOrphans({ name, openStore, newPlace, query }: StoreEngine): void {
  describe(`orphans on ${name}`, () => {
    let store: Store;
    let place: string;
    let remove: () => Promise<void>;

    beforeEach(async () => {
      ({ place, remove } = await newPlace());
      store = await openStore(place);
    });
    afterEach(async () => {
      await store.close();
      await remove();
    });

    async function belongings(conversationId: string): Promise<void> {
      const userId = "default";
      await store.conversationSecrets.change(conversationId, () => ({
        ...{ conversationId, userId, sandboxId: "s", values: { A: "1" } },
      }));
      const failing = { attempts: 0, failingSince: null, nextAttemptAt: null, detail: null };
      const processor = { kind: "LoggingCallbackProcessor" } as const;
      const callback = {
        id: randomUUID(),
        userId,
        conversationId,
        processor,
        secret: null,
        status: "ACTIVE",
      } as const;
      await store.callbacks.create([{ ...callback, ...failing, nextSeq: 1, createdAt: 1 }]);
      await store.pendingMessages.create({
        id: randomUUID(),
        userId,
        conversationId,
        content: [],
        createdAt: 1,
      });
    }

    async function start(conversationId: string, status: StartTaskRow["status"]): Promise<string> {
      const row = {
        id: randomUUID(),
        userId: "default",
        status,
        detail: null,
        conversationId,
        sandboxId: null,
        request: {},
      };
      await store.startTasks.create({ ...row, createdAt: 1, updatedAt: 1 });
      return row.id;
    }

    const counts = async (id: string) => [
      (await store.conversationSecrets.get(id)) ? 1 : 0,
      (await store.callbacks.listByConversation(id)).length,
      (await store.pendingMessages.listByConversation(id)).length,
    ];

    test("opening removes remains of conversations that neither exist nor are being started", async () => {
      const [lost, failed, starting, present] = Array.from({ length: 4 }, () => randomUUID()) as [
        string,
        string,
        string,
        string,
      ];
      await store.conversations.create(conversationRow({ id: present }));
      await start(failed, "ERROR");
      await start(starting, "RUNNING_SETUP_SCRIPT");
      for (const id of [lost, failed, starting, present]) await belongings(id);
      await store.close();
      store = await openStore(place);
      expect(await Promise.all([lost, failed, starting, present].map(counts))).toEqual([
        [0, 0, 0],
        [0, 0, 0],
        [1, 1, 1],
        [1, 1, 1],
      ]);
    });

    test("a conversation is removed with the record of its sandbox, or neither of them is", async () => {
      const row = conversationRow();
      const { id, sandboxId } = row;
      await store.conversations.create(row);
      await store.sandboxes.create({
        ...{ id: sandboxId, userId: "default", specId: "host", status: "PAUSED", statusDetail: null },
        ...{ incarnation: "1", sessionKey: "key", createdAt: 1, spec: null, prepared: true },
        ...{ snapshotId: null, lastUsedAt: 1 },
      });
      await belongings(id);
      // The trigger makes the transaction fail in the middle, as the death of the server would.
      if (name === "SQLite")
        await query(
          place,
          "CREATE TRIGGER refused BEFORE DELETE ON sandboxes BEGIN SELECT RAISE(ABORT, 'refused'); END",
        );
      else
        await query(
          place,
          `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
           CREATE TRIGGER refused BEFORE DELETE ON sandboxes FOR EACH ROW EXECUTE FUNCTION refuse()`,
        );
      await expect(store.conversations.remove(id, { sandboxId })).rejects.toThrow("refused");
      expect(await store.conversations.get(id)).toBeDefined();
      expect(await counts(id)).toEqual([1, 1, 1]);
      await query(place, `DROP TRIGGER refused${name === "SQLite" ? "" : " ON sandboxes"}`);
      expect(await store.conversations.remove(id, { sandboxId })).toBe(true);
      expect(await counts(id)).toEqual([0, 0, 0]);
      expect(await store.sandboxes.get(sandboxId)).toBeUndefined();
    });

    test("removing a conversation removes all its data and ends its start permanently", async () => {
      const { id } = conversationRow();
      const [open, ready] = [await start(id, "PREPARING_REPOSITORY"), await start(id, "READY")];
      await store.conversations.create(conversationRow({ id }));
      await belongings(id);
      expect(await store.conversations.remove(id)).toBe(true);
      expect(await counts(id)).toEqual([0, 0, 0]);
      expect(await store.startTasks.listOpen()).toEqual([]);
      // The start that continues in this process notices the removal later.
      const after = await store.startTasks.update(open, { status: "SETTING_UP_SKILLS" });
      expect(after).toMatchObject({
        status: "ERROR",
        detail: "The conversation was deleted while it was being started.",
      });
      expect(await store.startTasks.get(ready)).toMatchObject({ status: "READY" });
    });

    test("a conversation with children is not removed, and keeps its data", async () => {
      const parent = conversationRow();
      const child = conversationRow({ parentId: parent.id });
      const task = await start(parent.id, "WORKING");
      for (const row of [parent, child]) await store.conversations.create(row);
      await belongings(parent.id);
      expect(await store.conversations.remove(parent.id)).toBe(false);
      expect(await counts(parent.id)).toEqual([1, 1, 1]);
      expect((await store.startTasks.get(task))?.status).toBe("WORKING");
      expect(await store.conversations.remove(child.id)).toBe(true);
      expect(await store.conversations.remove(parent.id)).toBe(true);
    });
  });
}
