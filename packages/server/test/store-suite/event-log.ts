import { randomUUID } from "node:crypto";
import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ConstraintViolation } from "../../src/store/sql/constraint-violation.ts";
import type { Store } from "../../src/store/store.ts";
import { allowInventedEvents } from "../support/event-checks.ts";
import { conversationRow, message, stateUpdate } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeEventLog({ name, createTestStore, openStore, newPlace }: StoreEngine): void {
  describe(`event log on ${name}`, () => {
    // The log accepts whatever fits its columns; some of these events are invalid.
    allowInventedEvents();

    let store: Store;
    let close: () => Promise<void>;
    let id: string;

    beforeEach(async () => {
      ({ store, close } = await createTestStore());
      const row = conversationRow();
      id = row.id;
      await store.conversations.create(row);
    });

    afterEach(() => close());

    const metrics = (model: string, cost: number, tokens: number) => ({
      model_name: model,
      accumulated_cost: cost,
      max_budget_per_task: null,
      accumulated_token_usage: {
        model,
        prompt_tokens: tokens,
        completion_tokens: 1,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        context_window: tokens * 10,
        per_turn_token: tokens + 1,
        response_id: "r",
      },
    });

    test("an appended record gets the next sequence number, an id, a timestamp and its serialized text", async () => {
      const own = randomUUID();
      const first = await store.events.append(id, [message("a"), message("b", own)]);
      const [third] = await store.events.append(id, [message("c")]);
      expect([...first, third!].map((record) => record.seq)).toEqual([1, 2, 3]);
      expect(first[1]!.event.id).toBe(own);
      expect(first[0]!.event.id).toMatch(/^[0-9a-f]{8}-[0-9a-f-]{27}$/);
      expect(first[0]!.event.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}$/);
      expect(JSON.parse(first[0]!.json)).toEqual(first[0]!.event);
      expect(await store.events.read(id, 0, 10)).toEqual([...first, third]);
      expect(await store.events.read(id, 1, 1)).toEqual([first[1]]);
      expect(await store.events.lastSeq(id)).toBe(3);
    });

    test("an event whose id the log has is refused, and appends at the same time are not", async () => {
      const known = randomUUID();
      const other = conversationRow();
      await store.conversations.create(other);
      await store.events.append(id, [message("first", known)]);
      const results = await Promise.allSettled([
        store.events.append(id, [message("new"), message("again", known)]),
        store.events.append(other.id, [message("other", known)]),
      ]);
      expect(results.map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
      expect((results[0] as PromiseRejectedResult).reason).toBeInstanceOf(ConstraintViolation);
      const [next] = await store.events.append(id, [message("next")]);
      expect((await store.events.read(id, 0, 10)).map(({ seq }) => seq)).toEqual([1, 2]);
      expect(next!.seq).toBe(2);
      expect(await store.events.count(other.id)).toBe(1);
    });

    test("serialized events contain no null or undefined, except inside a state update's value", async () => {
      const hostile = JSON.parse(
        '{"kind":"ActionEvent","action":{"timeout":null,"__proto__":null,"list":[{"a":null}]},"summary":null}',
      );
      const [action] = await store.events.append(id, [
        { listed: true, event: { ...hostile, reasoning_content: undefined } },
      ]);
      const value = { usage_to_metrics: {}, budget: null };
      const [state] = await store.events.append(id, [stateUpdate("other", value)]);
      expect(action!.json).not.toContain("null");
      expect(action!.event).toMatchObject({ action: { list: [{}] } });
      expect(JSON.parse(state!.json).value).toEqual(value);
      expect(await store.events.read(id, 0, 10)).toEqual([action, state]);
    });

    test("the caller may change an event after appending it", async () => {
      const record = message("before");
      const appended = store.events.append(id, [record]);
      (record.event as { llm_message: { content: unknown[] } }).llm_message.content.push("after");
      expect(JSON.stringify((await appended)[0]!.event)).not.toContain("after");
    });

    test("control records are read and followed, but not listed, counted or found by id", async () => {
      const records = await store.events.append(id, [
        message("a"),
        stateUpdate("execution_status", "running"),
        message("b"),
      ]);
      expect((await store.events.read(id, 0, 10)).map((record) => record.listed)).toEqual([
        true,
        false,
        true,
      ]);
      expect((await store.events.search(id, { limit: 10 })).items).toEqual([
        records[0]!.json,
        records[2]!.json,
      ]);
      expect(await store.events.count(id)).toBe(2);
      expect(
        await store.events.batch(
          id,
          records.map((record) => record.event.id),
        ),
      ).toEqual([records[0]!.json, null, records[2]!.json]);
    });

    test("reading without texts returns the same records, and fewer if they are long", async () => {
      const parsed = (after: number, limit: number) => store.events.readParsed(id, after, limit);
      const whole = async (after: number, limit: number) =>
        (await store.events.read(id, after, limit)).map(({ json: _, ...record }) => record);
      expect(await parsed(0, 10)).toEqual([]);
      await store.events.append(id, [
        message('quotes " and \\ and ] and \u2028'),
        stateUpdate("execution_status", "running"),
      ]);
      await store.events.append(id, [message("a"), message("b")]);
      expect(await parsed(0, 10)).toEqual(await whole(0, 10));
      expect((await parsed(0, 10)).map(({ seq, listed }) => [seq, listed])).toEqual([
        [1, true],
        [2, false],
        [3, true],
        [4, true],
      ]);
      expect(await parsed(1, 2)).toEqual(await whole(1, 2));
      expect(await parsed(4, 10)).toEqual([]);
      const long = "x".repeat(5 * 2 ** 20);
      await store.events.append(id, [message(long), message(long)]);
      expect((await parsed(4, 10)).map(({ seq }) => seq)).toEqual([5]);
      expect((await parsed(5, 10)).map(({ seq }) => seq)).toEqual([6]);
      expect(await store.events.readParsed("unknown", 0, 10)).toEqual([]);
    });

    test("pages continue in both directions, whatever lies between the listed events", async () => {
      for (let index = 0; index < 25; index++) {
        await store.events.append(id, [message(`${index}`), stateUpdate("x", index)]);
      }
      const texts = async (descending: boolean) => {
        const all: string[] = [];
        let pageId: string | null = null;
        do {
          const page: { items: string[]; nextPageId: string | null } = await store.events.search(id, {
            limit: 10,
            descending,
            ...(pageId !== null && { pageId }),
          });
          all.push(...page.items);
          pageId = page.nextPageId;
        } while (pageId !== null);
        return all.map((json) => Number(JSON.parse(json).llm_message.content[0].text));
      };
      const order = Array.from({ length: 25 }, (_, index) => index);
      expect(await texts(false)).toEqual(order);
      expect(await texts(true)).toEqual(order.toReversed());
      expect((await store.events.search(id, { limit: 25 })).nextPageId).toBeNull();
      expect(await store.events.search(id, { limit: 10, pageId: "400" })).toEqual({
        items: [],
        nextPageId: null,
      });
      const start = await store.events.search(id, { limit: 10 });
      for (const pageId of ["", "-1", "1e3", "abc", "0x10", "99999999999999999999"]) {
        expect(await store.events.search(id, { limit: 10, pageId })).toEqual(start);
      }
    });

    test("filters by kind and time apply to pages and counts", async () => {
      const pause = { listed: true, event: { kind: "PauseEvent", source: "user" } } as const;
      const records = await store.events.append(id, [message("0"), pause, message("2"), pause, message("4")]);
      const times = records.map((record) => record.event.timestamp);
      const found = async (filter: object) => {
        const { items } = await store.events.search(id, { limit: 10, ...filter });
        expect(await store.events.count(id, filter)).toBe(items.length);
        return items.map((json) => records.findIndex((record) => record.json === json));
      };
      expect(await found({ kind: "PauseEvent" })).toEqual([1, 3]);
      expect(await found({ timestampGte: times[1], timestampLt: times[4] })).toEqual([1, 2, 3]);
      expect(await found({ timestampGte: times[3], timestampLt: times[1] })).toEqual([]);
      expect(await found({ timestampGte: "2999-01-01T00:00:00.000000" })).toEqual([]);
      expect(await found({ timestampLt: "1999-01-01T00:00:00.000000" })).toEqual([]);
      expect(await found({ kind: "MessageEvent", timestampGte: times[1] })).toEqual([2, 4]);
      const second = await store.events.search(id, {
        limit: 1,
        kind: "MessageEvent",
        descending: true,
        pageId: "1",
      });
      expect(second).toEqual({ items: [records[2]!.json], nextPageId: "2" });
    });

    test("an append to an unknown conversation is refused and stores nothing, also in a shared commit", async () => {
      const unknown = randomUUID();
      const results = await Promise.allSettled([
        store.events.append(id, [message("a")]),
        store.events.append(unknown, [message("b")]),
        store.events.append(id, [message("c")]),
      ]);
      expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
      expect(results[1]).toMatchObject({ reason: { code: "ConversationNotFound" } });
      expect(await store.events.lastSeq(id)).toBe(2);
      expect(await store.events.read(unknown, 0, 10)).toEqual([]);
      expect(await store.events.count(unknown)).toBe(0);
      await expect(store.events.append(unknown, [])).rejects.toMatchObject({ code: "ConversationNotFound" });
    });

    test("a batch with an existing event id is refused as a whole and does not affect other batches", async () => {
      const [first] = await store.events.append(id, [message("a")]);
      const results = await Promise.allSettled([
        store.events.append(id, [message("b"), message("c", first!.event.id)]),
        store.events.append(id, [message("d")]),
      ]);
      expect(results.map((result) => result.status)).toEqual(["rejected", "fulfilled"]);
      expect((await store.events.read(id, 0, 10)).map((record) => record.seq)).toEqual([1, 2]);
      expect((await store.events.search(id, { limit: 10 })).items).toHaveLength(2);
    });

    test("timestamps never go backwards, even if the clock does or the process restarts", async () => {
      const { place, remove } = await newPlace();
      let now = Date.UTC(2026, 0, 1);
      const times: string[] = [];
      const row = conversationRow();
      for (const step of [0, -3_600_000, 1]) {
        const own = await openStore(place, { clock: () => now });
        if (times.length === 0) await own.conversations.create(row);
        for (let index = 0; index < 5; index++) {
          now += step;
          const records = await own.events.append(row.id, [message("a"), message("b")]);
          times.push(...records.map((record) => record.event.timestamp));
        }
        await own.close();
      }
      await remove();
      expect(times).toHaveLength(30);
      expect(new Set(times).size).toBe(30);
      expect(times.toSorted()).toEqual(times);
    });

    test("followers get every record once, in order, under 50 concurrent appenders, as the appenders' own objects", async () => {
      const seen: LogRecord[] = [];
      let endedCalls = 0;
      const checks: Promise<boolean>[] = [];
      let broken = 0;
      store.events.follow(id, () => {
        broken += 1;
        if (broken === 1) throw new Error("a broken follower");
      });
      const end = store.events.follow(id, () => {
        endedCalls++;
        end();
      });
      store.events.follow(id, (records) => {
        const { seq } = records.at(-1)!;
        checks.push(store.events.lastSeq(id).then((last) => last < seq));
        seen.push(...records);
      });
      const warned = new Promise<Error>((resolve) => process.once("warning", resolve));
      const appended = await Promise.all(
        Array.from({ length: 50 }, async () => {
          const own: LogRecord[] = [];
          for (let index = 0; index < 20; index++)
            own.push(...(await store.events.append(id, [message("x"), message("y")])));
          return own;
        }),
      );
      expect(seen.map((record) => record.seq)).toEqual(Array.from({ length: 2000 }, (_, index) => index + 1));
      expect(new Set(seen)).toEqual(new Set(appended.flat()));
      for (const own of appended)
        expect(own.map((record) => record.seq).toSorted((a, b) => a - b)).toEqual(own.map((r) => r.seq));
      expect(await Promise.all(checks)).not.toContain(true);
      expect(endedCalls).toBe(1);
      // A follower that is behind gets several appends at once.
      expect(broken).toBeGreaterThan(1);
      expect(broken).toBeLessThanOrEqual(1000);
      expect((await warned).message).toContain("a broken follower");
    });

    test("a follower that another follower closes during delivery gets no further records", async () => {
      const heard: number[] = [];
      let endSecond = () => {};
      store.events.follow(id, () => endSecond());
      endSecond = store.events.follow(id, (records) => heard.push(...records.map((record) => record.seq)));
      await store.events.append(id, [message("a")]);
      expect(heard).toEqual([]);
    });

    test("followers get only their own conversation's records", async () => {
      const other = conversationRow();
      await store.conversations.create(other);
      const heard: number[] = [];
      store.events.follow(other.id, (records) => heard.push(...records.map((record) => record.seq)));
      await store.events.append(id, [message("a")]);
      await store.events.append(other.id, [message("b")]);
      expect(heard).toEqual([1]);
    });

    test("the summary reflects the state records of the log", async () => {
      expect((await store.conversations.get(id))!.summary).toEqual({
        executionStatus: "idle",
        metrics: null,
        stats: null,
      });
      const [running] = await store.events.append(id, [stateUpdate("execution_status", "running")]);
      expect((await store.conversations.get(id))!.summary.executionStatus).toBe("running");
      expect((await store.conversations.listRunning()).map((row) => row.id)).toEqual([id]);
      const usages = { agent: metrics("demo/plan", 0.25, 100), condenser: metrics("demo/small", 0.5, 10) };
      await store.events.append(id, [
        stateUpdate("stats", { usage_to_metrics: usages }),
        stateUpdate("execution_status", "no such status"),
        stateUpdate("stats", null),
        stateUpdate("execution_status", "finished"),
      ]);
      const row = (await store.conversations.get(id))!;
      expect(row.summary.executionStatus).toBe("finished");
      expect(row.summary.metrics).toMatchObject({
        model_name: "demo/plan",
        accumulated_cost: 0.75,
        accumulated_token_usage: {
          model: "demo/plan",
          prompt_tokens: 110,
          completion_tokens: 2,
          context_window: 1000,
          per_turn_token: 101,
        },
      });
      expect(row.updatedAt).toBeGreaterThanOrEqual(Date.parse(`${running!.event.timestamp}Z`));
      expect(await store.conversations.listRunning()).toEqual([]);
    });

    test("removing a conversation removes its events", async () => {
      const other = conversationRow();
      await store.conversations.create(other);
      await store.events.append(id, [message("a")]);
      await store.events.append(other.id, [message("b")]);
      await store.conversations.remove(id);
      expect(await store.events.read(id, 0, 10)).toEqual([]);
      await expect(store.events.append(id, [message("c")])).rejects.toMatchObject({
        code: "ConversationNotFound",
      });
      await store.conversations.create(conversationRow({ id }));
      expect(await store.events.count(id)).toBe(0);
      expect(await store.events.count(other.id)).toBe(1);
    });

    test("close stores earlier appends and refuses later ones", async () => {
      const { place, remove } = await newPlace();
      const own = await openStore(place);
      const row = conversationRow();
      await own.conversations.create(row);
      const appended = own.events.append(row.id, [message("last")]);
      const closed = own.close();
      await expect(own.events.append(row.id, [message("late")])).rejects.toThrow("closed");
      await Promise.all([appended, closed]);
      const again = await openStore(place);
      expect(await again.events.count(row.id)).toBe(1);
      await again.close();
      await remove();
    });
  });
}
