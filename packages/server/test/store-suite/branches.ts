import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Store } from "../../src/store/store.ts";
import { conversationRow, message, stateUpdate } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

export function describeBranches({ name, openStore, newPlace }: StoreEngine): void {
  describe(`branches on ${name}`, () => {
    let store: Store;
    let place: string;
    let remove: () => Promise<void>;
    beforeAll(async () => {
      ({ place, remove } = await newPlace());
      store = await openStore(place);
    });
    afterAll(async () => {
      await store.close();
      await remove();
    });

    /** An event of the model that the log is compared with. */
    interface Seen {
      id: string;
      parent: string | null;
    }

    async function textsOn(id: string, spans: readonly { first: number; last: number }[]): Promise<string[]> {
      const pages = await Promise.all(spans.map((span) => store.events.search(id, { span, limit: 1000 })));
      return pages.flatMap(({ items }) => items);
    }

    async function idsOn(id: string, spans: readonly { first: number; last: number }[]): Promise<string[]> {
      return (await textsOn(id, spans)).map((json) => (JSON.parse(json) as { id: string }).id);
    }

    test("after any appends, moves and forks, and a restart, the path to each event follows its parents", async () => {
      const step = fc.oneof(
        {
          weight: 3,
          arbitrary: fc.record({
            kind: fc.constant("append" as const),
            count: fc.integer({ min: 1, max: 3 }),
          }),
        },
        { weight: 2, arbitrary: fc.record({ kind: fc.constant("move" as const), to: fc.nat() }) },
        { weight: 1, arbitrary: fc.record({ kind: fc.constant("fork" as const), from: fc.nat() }) },
      );
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
          let { id } = conversationRow();
          await store.conversations.create(conversationRow({ id }));
          // The model consists of every event with its parent, and of HEAD.
          let tree: Seen[] = [];
          let head: string | null = null;
          const wayTo = (eventId: string | null): string[] => {
            const way: string[] = [];
            for (let at = eventId; at !== null; at = tree.find((seen) => seen.id === at)!.parent)
              way.unshift(at);
            return way;
          };
          for (const one of steps) {
            if (one.kind === "append") {
              const records = Array.from({ length: one.count }, () => message("text"));
              for (const { event, json } of await store.events.append(id, [
                ...records,
                stateUpdate("stats", null),
              ])) {
                if (event.kind !== "MessageEvent") continue;
                const { parent_id: named } = JSON.parse(json);
                expect(event.parent_id).toBe(named);
                if (named !== undefined) expect(named).toBe(head);
                tree.push({ id: event.id, parent: head });
                head = event.id;
              }
            } else if (one.kind === "move") {
              head = [null, ...tree.map((seen) => seen.id)][one.to % (tree.length + 1)]!;
              await store.events.append(id, [stateUpdate("leaf_event_id", head)], { navigate: head });
              expect((await store.conversations.get(id))!.head).toBe(head ?? "");
            } else {
              const from: string | null = [null, ...tree.map((seen) => seen.id)][
                one.from % (tree.length + 1)
              ]!;
              const { spans } = (await store.events.pathTo(id, from))!;
              const row = conversationRow();
              const navigated = (await store.conversations.get(id))!.head !== null;
              const before = await textsOn(id, spans);
              const log = await store.conversations.copyLog(id, spans, {
                head: navigated ? from : null,
                metrics: null,
              });
              await store.conversations.create(row, undefined, log);
              const way = wayTo(from);
              tree = tree.filter((seen) => way.includes(seen.id));
              head = from;
              ({ id } = row);
              expect((await store.events.search(id, { limit: 1000 })).items).toEqual(before);
              expect(await store.events.lastSeq(id)).toBe(way.length);
            }
            expect(await idsOn(id, (await store.events.branch(id)).spans)).toEqual(wayTo(head));
          }
          const before = await store.events.branch(id);
          await store.close();
          store = await openStore(place);
          expect(await store.events.branch(id)).toEqual(before);
          for (const { id: eventId } of tree)
            expect(await idsOn(id, (await store.events.pathTo(id, eventId))!.spans)).toEqual(wayTo(eventId));
        }),
        { numRuns: 25 },
      );
    });

    test("a move in a running conversation or to an unknown event is refused and stores nothing", async () => {
      const row = conversationRow();
      await store.conversations.create(row);
      const [first] = await store.events.append(row.id, [
        message("one"),
        stateUpdate("execution_status", "running"),
      ]);
      const move = (to: string | null) =>
        store.events.append(row.id, [stateUpdate("leaf_event_id", to)], { navigate: to });
      await expect(move(first!.event.id)).rejects.toMatchObject({ code: "ConversationRunning" });
      await store.events.append(row.id, [stateUpdate("execution_status", "idle")]);
      await expect(move("none")).rejects.toMatchObject({ code: "EventNotFound" });
      expect(await store.events.lastSeq(row.id)).toBe(3);
      expect((await store.conversations.get(row.id))!.head).toBe(null);
      await move(null);
      expect((await store.conversations.get(row.id))!.head).toBe("");
    });

    test("an append that is issued with the creation of its conversation follows it, also on a copied log", async () => {
      const source = conversationRow();
      await store.conversations.create(source);
      await store.events.append(source.id, [message("first", "first")]);
      const { spans } = await store.events.branch(source.id);
      for (let round = 0; round < 20; round++) {
        const goesOn = { head: "first", metrics: null };
        const log = await store.conversations.copyLog(source.id, spans, goesOn);
        const [plain, copied] = [conversationRow(), conversationRow()];
        const [, , stored] = await Promise.all([
          store.conversations.create(plain),
          store.conversations.create(copied, undefined, log),
          store.events.append(copied.id, [message("next")]),
          store.events.append(plain.id, [message("first")]),
        ]);
        expect(stored[0]!.event.parent_id).toBe("first");
      }
    });

    test("a failed copy stores nothing: unknown source, used id, or server killed", async () => {
      const source = conversationRow();
      await store.conversations.create(source);
      const texts = Array.from({ length: 1200 }, () => message("text"));
      await store.events.append(source.id, texts);
      const { spans } = await store.events.branch(source.id);
      await expect(store.conversations.copyLog(conversationRow().id, spans)).rejects.toMatchObject({
        code: "ConversationNotFound",
      });

      const taken = conversationRow();
      await store.conversations.create(taken);
      const log = await store.conversations.copyLog(source.id, spans);
      const other = conversationRow({ userId: "other" });
      const create = (row: typeof taken) => store.conversations.create(row, undefined, log);
      await expect(create(taken)).rejects.toMatchObject({ code: "ConversationExists" });
      expect(await store.events.lastSeq(taken.id)).toBe(0);
      await create(other);
      await store.conversations.dropLog(log);
      expect(await store.events.count(other.id)).toBe(1200);
      expect((await store.events.read(other.id, 1199, 10)).map(({ seq, json }) => [seq, json])).toEqual(
        (await store.events.read(source.id, 1199, 10)).map(({ seq, json }) => [seq, json]),
      );
      const [next] = await store.events.append(other.id, [message("next")]);
      expect(next!.seq).toBe(1201);
      expect(next!.event.timestamp > (await store.events.read(other.id, 1199, 1))[0]!.event.timestamp).toBe(
        true,
      );

      const left = await store.conversations.copyLog(source.id, spans);
      expect(await store.conversations.count({ userId: "default" })).toBe(
        (await store.conversations.search({ userId: "default" }, { limit: 1000 })).items.length,
      );
      await store.close();
      store = await openStore(place);
      expect(await store.conversations.get(left)).toBeUndefined();
      expect(await store.events.lastSeq(left)).toBe(0);
    });
  });
}
