import type { ConversationRow } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";

/** Slots for the runs of each user. A conversation without a slot waits in order. */
export interface RunSlots {
  /** Takes a slot for a conversation; false: it waits for one. Throws what the store throws. */
  acquire(userId: string, conversationId: string): boolean | Promise<boolean>;
  isWaiting(userId: string, conversationId: string): boolean;
  /** Its place among the waiting conversations, from 1; undefined when it does not wait. */
  position(userId: string, conversationId: string): number | undefined;
  /** Returns the slot of a conversation, or takes it out of the queue. */
  release(userId: string, conversationId: string): void;
  /** Leaves the slot or the place of a conversation to the node that runs it next. */
  leave(userId: string, conversationId: string): void;
  /**
   * Gives a slot to a waiting conversation whose turn has come; undefined: none waits, or none is
   * free. Never rejects.
   */
  next(userId: string): string | undefined | Promise<string | undefined>;
}

interface UserRuns {
  running: Set<string>;
  /** In the order of arrival. */
  waiting: Set<string>;
}

/**
 * Limits the concurrent runs of each user in a server that is alone. Other conversations wait in
 * order; their status is `running` meanwhile.
 */
export class RunQueue implements RunSlots {
  readonly #max: number;
  readonly #users = new Map<string, UserRuns>();

  /** `max` 0: no limit. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a slot for a conversation; false: it waits for one. */
  acquire(userId: string, conversationId: string): boolean {
    if (this.#max === 0) return true;
    const runs = this.#users.get(userId) ?? { running: new Set(), waiting: new Set() };
    this.#users.set(userId, runs);
    const free = runs.running.has(conversationId) || runs.running.size < this.#max;
    if (free) runs.waiting.delete(conversationId);
    (free ? runs.running : runs.waiting).add(conversationId);
    return free;
  }

  isWaiting(userId: string, conversationId: string): boolean {
    return this.#users.get(userId)?.waiting.has(conversationId) === true;
  }

  /** Its place among the waiting conversations, from 1; undefined when it does not wait. */
  position(userId: string, conversationId: string): number | undefined {
    if (!this.isWaiting(userId, conversationId)) return undefined;
    return [...this.#users.get(userId)!.waiting].indexOf(conversationId) + 1;
  }

  /** Returns the slot of a conversation, or takes it out of the queue. */
  release(userId: string, conversationId: string): void {
    const runs = this.#users.get(userId);
    runs?.running.delete(conversationId);
    runs?.waiting.delete(conversationId);
    if (runs && runs.running.size + runs.waiting.size === 0) this.#users.delete(userId);
  }

  /** A server that is alone has nobody to leave a slot to. */
  leave(userId: string, conversationId: string): void {
    this.release(userId, conversationId);
  }

  /** Gives a slot to the next conversation of the queue; undefined: none waits, or none is free. */
  next(userId: string): string | undefined {
    const runs = this.#users.get(userId);
    if (!runs || runs.running.size >= this.#max) return undefined;
    const [first] = runs.waiting;
    if (first !== undefined) this.acquire(userId, first);
    return first;
  }
}

/**
 * The order in which a new process wakes running conversations: first those that had a slot, then
 * those that waited, by the time of their request. A waiting conversation has no record after the
 * one that made it `running`.
 */
export async function sortForWake<T extends Pick<ConversationRow, "id" | "updatedAt">>(
  rows: readonly T[],
  events: Pick<EventLog, "lastSeq" | "read">,
): Promise<T[]> {
  const waits = async (id: string) => {
    const [last] = await events.read(id, (await events.lastSeq(id)) - 1, 1);
    const event = last?.event;
    return (
      event?.kind === "ConversationStateUpdateEvent" &&
      event.key === "execution_status" &&
      event.value === "running"
    );
  };
  const found: { row: T; waits: boolean }[] = [];
  for (const row of rows) found.push({ row, waits: await waits(row.id) });
  return found
    .sort((a, b) => Number(a.waits) - Number(b.waits) || a.row.updatedAt - b.row.updatedAt)
    .map(({ row }) => row);
}
