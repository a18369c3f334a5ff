import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createRow } from "../../src/callbacks/rows.ts";
import type { Goal } from "../../src/store/conversation-store.ts";
import type { Store } from "../../src/store/store.ts";
import { conversationRow, message, stateUpdate } from "../support/store.ts";
import type { StoreEngine } from "./engine.ts";

const running = stateUpdate("execution_status", "running");

/** The reads of a node about the sandboxes that it begins to own. */
export function describeScopes({ name, createTestStore }: StoreEngine): void {
  describe(`sandboxes of one server of several, on ${name}`, () => {
    let store: Store;
    let close: () => Promise<void>;
    beforeEach(async () => {
      ({ store, close } = await createTestStore());
    });
    afterEach(() => close());

    /** Two conversations in each of three sandboxes. */
    async function fill(goal?: Goal): Promise<{ sandboxId: string; ids: string[] }[]> {
      const places = Array.from({ length: 3 }, () => ({ sandboxId: randomUUID(), ids: [] as string[] }));
      for (const { sandboxId, ids } of places)
        for (let count = 0; count < 2; count++) {
          const row = conversationRow({ sandboxId });
          await store.conversations.create(goal ? { ...row, config: { ...row.config, goal } } : row);
          ids.push(row.id);
        }
      return places;
    }

    const sorted = (ids: Iterable<string>) => [...ids].toSorted();

    test("running conversations, goals and unclean ends are those of the sandboxes", async () => {
      const goal = {
        objective: "o",
        maxIterations: 1,
        iteration: 1,
        detail: null,
        messageId: "m",
        message: "m",
      };
      const [one, other, third] = await fill({ ...goal, status: "running" });
      for (const { ids } of [one!, other!]) for (const id of ids) await store.events.append(id, [running]);
      const scope = [one!.sandboxId, third!.sandboxId];
      const found = await store.conversations.listRunning(scope);
      expect(sorted(found.map(({ id }) => id))).toEqual(sorted(one!.ids));
      const goals = await store.conversations.listWithGoal(scope);
      expect(sorted(goals.map(({ id }) => id))).toEqual(sorted([...one!.ids, ...third!.ids]));
      expect(await store.conversations.listRunning([])).toEqual([]);

      const ends = async (ids: readonly string[]) => [
        ...(await store.conversations.listUncleanEnds(ids)).values(),
      ];
      for (let end = 0; end < 2; end++) await store.conversations.countUncleanEnds();
      expect(await ends(one!.ids)).toEqual([2, 2]);
      await store.conversations.markCleanEnd();
      await store.conversations.countUncleanEnds();
      expect(await ends(one!.ids)).toEqual([2, 2]);
      // A conversation that does not run is not counted.
      expect(await ends(third!.ids)).toEqual([0, 0]);
      await store.events.append(one!.ids[0]!, [message("words of a user")]);
      expect((await ends(one!.ids)).toSorted()).toEqual([0, 2]);
    });

    test("start tasks, pending messages and callbacks are those of the sandboxes", async () => {
      const [one, other] = await fill();
      const scope = [one!.sandboxId];
      const task = (sandboxId: string, status: "WORKING" | "READY" = "WORKING") => ({
        ...{ id: randomUUID(), userId: "default", conversationId: randomUUID() },
        ...{ sandboxId, status, detail: null, request: {}, createdAt: 1, updatedAt: 1 },
      });
      const open = task(one!.sandboxId);
      for (const row of [open, task(one!.sandboxId, "READY"), task(other!.sandboxId)])
        await store.startTasks.create(row);
      expect(await store.startTasks.listOpen(scope)).toEqual([open]);

      const waiting = [one!.ids[0]!, one!.ids[0]!, other!.ids[0]!, randomUUID()];
      for (const conversationId of waiting)
        await store.pendingMessages.create({
          ...{ id: randomUUID(), userId: "default", conversationId, createdAt: 1 },
          content: [{ type: "text", text: "words", cache_prompt: false }],
        });
      expect(await store.pendingMessages.listConversations(scope)).toEqual([one!.ids[0]]);

      const behind = [one!.ids[1]!, other!.ids[1]!];
      for (const id of [...behind, one!.ids[0]!])
        await store.callbacks.create([createRow("default", id, { kind: "LoggingCallbackProcessor" })]);
      for (const id of behind) await store.events.append(id, [message("words")]);
      const pending = await store.callbacks.listPending(scope);
      expect(pending.map(({ conversationId }) => conversationId)).toEqual([one!.ids[1]]);
    });
  });
}
