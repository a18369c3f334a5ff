import type { ConversationRow } from "../../store/conversation-store.ts";
import type { EventLog } from "../../store/event-log.ts";

interface UserRuns {
  running: Set<string>;
  /** In the order in which they came. */
  waiting: Set<string>;
}

/** Bounds the runs of each user at a time: further conversations wait, in order, and stay `running` in the log meanwhile. */
export class RunQueue {
  readonly #max: number;
  readonly #users = new Map<string, UserRuns>();

  /** `max` 0 is no limit. */
  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place for a conversation; false: there is none, and it waits for one. */
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

  /** Gives a conversation's place, or its turn, back. */
  release(userId: string, conversationId: string): void {
    const runs = this.#users.get(userId);
    runs?.running.delete(conversationId);
    runs?.waiting.delete(conversationId);
    if (runs && runs.running.size + runs.waiting.size === 0) this.#users.delete(userId);
  }

  /** Takes the conversation whose turn it is off the queue; undefined while nobody waits or there is no place. */
  next(userId: string): string | undefined {
    const runs = this.#users.get(userId);
    if (!runs || runs.running.size >= this.#max) return undefined;
    const [first] = runs.waiting;
    if (first !== undefined) runs.waiting.delete(first);
    return first;
  }
}

/**
 * The order in which a new process wakes the conversations that are `running`: first those that ran when the old one ended, then those that
 * waited, by when they began to. A conversation that waits has nothing in its log behind the record that made it `running`.
 */
export function sortForWake<T extends Pick<ConversationRow, "id" | "updatedAt">>(
  rows: readonly T[],
  events: Pick<EventLog, "lastSeq" | "read">,
): T[] {
  const waits = (id: string) => {
    const [last] = events.read(id, events.lastSeq(id) - 1, 1);
    const event = last?.event;
    return (
      event?.kind === "ConversationStateUpdateEvent" &&
      event.key === "execution_status" &&
      event.value === "running"
    );
  };
  return rows
    .map((row) => ({ row, waits: waits(row.id) }))
    .sort((a, b) => Number(a.waits) - Number(b.waits) || a.row.updatedAt - b.row.updatedAt)
    .map(({ row }) => row);
}
