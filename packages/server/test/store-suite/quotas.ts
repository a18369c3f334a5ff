import { failure } from "@sandpiper/agent/loop/status";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { maxSeq } from "../../src/store/sql/max-seq.ts";
import type { Store } from "../../src/store/store.ts";
import { conversationRow, message } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeQuotas({ name, newPlace, openStore, query, textOf }: StoreEngine): void {
  describe(`quotas on ${name}`, () => {
    const MB = 2 ** 20;
    const quotas = { conversationBytes: MB, userBytes: 1.5 * MB };
    let place: string;
    let remove: () => Promise<void>;
    let store: Store;

    beforeEach(async () => {
      ({ place, remove } = await newPlace());
      store = await openStore(place, { quotas });
    });
    afterEach(async () => {
      await store.close();
      await remove();
    });

    const large = message("x".repeat(100_000));
    const quotaReached = { code: "StorageQuotaReached", status: 507 };

    /** Bytes that the store counts for a user. */
    async function counted(userId = "default"): Promise<number> {
      const sql = `SELECT coalesce(sum(bytes), 0) AS bytes FROM stored_bytes WHERE user_id = '${userId}'`;
      return Number((await query(place, sql))[0]!.bytes);
    }

    /** Appends until the quota is reached. Returns the number of stored events. */
    async function fill(id: string): Promise<number> {
      for (let count = 0; ; count++) {
        const error = await store.events.append(id, [large]).then(
          () => undefined,
          (reason) => reason,
        );
        if (!error) continue;
        expect(error).toMatchObject(quotaReached);
        return count;
      }
    }

    test("a conversation at its quota refuses events, records how it ends, and leaves others alone", async () => {
      const [full, other] = [conversationRow(), conversationRow()];
      for (const row of [full, other]) await store.conversations.create(row);
      expect(await fill(full.id)).toBe(10);
      await store.events.append(full.id, failure("StorageQuotaReached", "It is full."));
      expect((await store.conversations.get(full.id))!.summary.executionStatus).toBe("error");
      await store.events.append(other.id, [large]);
      await store.close();
      store = await openStore(place, { quotas });
      await expect(store.events.append(full.id, [large])).rejects.toMatchObject(quotaReached);
    });

    test("a user at the quota can only delete, which makes room; other users are not affected", async () => {
      const rows = [conversationRow(), conversationRow(), conversationRow({ userId: "other" })];
      for (const row of rows) await store.conversations.create(row);
      await fill(rows[0]!.id);
      expect(await fill(rows[1]!.id)).toBeLessThan(10);
      const config = { ...conversationRow().config, systemMessageSuffix: "x".repeat(200_000) };
      await expect(store.conversations.create(conversationRow({ config }))).rejects.toMatchObject(
        quotaReached,
      );
      await expect(store.conversations.copyLog(rows[0]!.id, [{ first: 1, last: 5 }])).rejects.toMatchObject(
        quotaReached,
      );
      await store.events.append(rows[2]!.id, [large]);
      await store.conversations.remove(rows[0]!.id);
      await store.events.append(rows[1]!.id, [large]);
      for (const { id } of rows) if (await store.conversations.get(id)) await store.conversations.remove(id);
      expect([await counted(), await counted("other")]).toEqual([0, 0]);
    });

    test("what forks, pending messages, contexts and changes store is counted, and again when it is removed", async () => {
      const row = conversationRow();
      await store.conversations.create(row);
      const empty = await counted();
      await store.events.append(row.id, [large, large]);
      expect((await counted()) - empty).toBeGreaterThan(200_000);
      const before = await counted();
      const fork = conversationRow();
      const log = await store.conversations.copyLog(row.id, [{ first: 1, last: 2 }]);
      await store.conversations.create(fork, undefined, log);
      expect((await counted()) - before).toBeGreaterThan(200_000);
      await store.contexts.change(row.id, () => ({ text: "x".repeat(50_000) }));
      await store.contexts.change(row.id, () => ({ text: "x" }));
      await store.conversations.update(row.id, { config: { tags: { big: "x".repeat(50_000) } } });
      const content = [{ type: "text", text: "x".repeat(50_000), cache_prompt: false }] as const;
      const pending = {
        id: "p",
        userId: "default",
        conversationId: row.id,
        createdAt: 1,
        content: [...content],
      };
      await store.pendingMessages.create(pending);
      expect((await counted()) - before).toBeGreaterThan(300_000);
      for (const { id } of [row, fork]) await store.conversations.remove(id);
      expect(await counted()).toBe(0);
    });

    test("the oldest ended start tasks of a user are removed beyond a number", async () => {
      const task = (number: number, status: "WORKING" | "READY") => ({
        ...{ id: `task-${number}`, userId: "default", conversationId: `c-${number}`, sandboxId: null },
        ...{ status, detail: null, createdAt: number, updatedAt: number, request: {} },
      });
      await store.startTasks.create(task(0, "WORKING"));
      await Promise.all(
        Array.from({ length: 1_002 }, (_, at) => store.startTasks.create(task(at + 1, "READY"))),
      );
      await store.startTasks.create(task(2_000, "WORKING"));
      const numbers = [0, 1, 2, 3, 1_002, 2_000];
      const rows = await Promise.all(numbers.map((number) => store.startTasks.get(`task-${number}`)));
      const left = numbers.filter((_, index) => rows[index] !== undefined);
      expect(left).toEqual([0, 3, 1_002, 2_000]);
    });

    test("starts that are not over are bounded in number and bytes, for each user", async () => {
      const create = (id: string, userId: string) =>
        store.startTasks.create({
          ...{ id, userId, conversationId: `c-${id}`, sandboxId: null, request: {} },
          ...{ status: "WORKING", detail: null, createdAt: 1, updatedAt: 1 },
        });
      const refused = { code: "TooManyRequests", message: expect.stringContaining("are being started") };
      await Promise.all(Array.from({ length: 1_000 }, (_, at) => create(`t${at}`, "ann")));
      await expect(create("more", "ann")).rejects.toMatchObject(refused);
      await store.startTasks.update("t0", { status: "ERROR" });
      await create("more", "ann");
      await create("first", "ben");
      await query(place, `UPDATE start_tasks SET request = ${textOf(256 * MB)} WHERE id = 'first'`);
      await expect(create("second", "ben")).rejects.toMatchObject(refused);
    });

    test("a conversation with the maximum number of events still records how it ends", async () => {
      const full = conversationRow();
      await store.conversations.create(full);
      await query(place, `UPDATE conversations SET last_seq = ${maxSeq - 1} WHERE id = '${full.id}'`);
      await expect(store.events.append(full.id, [message("more")])).rejects.toMatchObject(quotaReached);
      await store.events.append(full.id, failure("StorageQuotaReached", "It is full.").slice(0, 1));
    });
  });
}
