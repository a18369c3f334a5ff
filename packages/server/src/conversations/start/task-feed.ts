import { setTimeout as sleep } from "node:timers/promises";
import type { StartTaskRow, StartTaskStore } from "../../store/start-task-store.ts";

/** Delay between two looks at a task that another request follows, ms. */
const watchMs = 250;

type Change = Parameters<StartTaskStore["update"]>[1];

/** A reader of a task: its unread states, and the callback for new ones. */
interface Follower {
  rows: StartTaskRow[];
  wake: () => void;
  /** The feed calls this when another node continues the task. */
  isOver?: boolean;
}

/** Stores changes of start tasks, then reports them to the followers of the task. */
export class TaskFeed {
  readonly #store: Pick<StartTaskStore, "fail" | "get" | "update">;
  readonly #owner: () => string | undefined;
  readonly #followers = new Map<string, Set<Follower>>();
  #closed = false;

  /** `owner` returns the incarnation of this node; undefined in a server that is alone. */
  constructor(store: Pick<StartTaskStore, "fail" | "get" | "update">, owner: () => string | undefined) {
    this.#store = store;
    this.#owner = owner;
  }

  /** Stores the progress of a task. Throws OwnershipLost when another node owns the task. */
  async update(id: string, change: Change): Promise<void> {
    this.#report(await this.#store.update(id, change, this.#owner()));
  }

  /** Ends a task with an error, as `StartTaskStore.fail` does. */
  async fail(id: string, detail: string): Promise<void> {
    this.#report(await this.#store.fail(id, detail, this.#owner()));
  }

  #report(row: StartTaskRow): void {
    const followers = this.#followers.get(row.id) ?? [];
    if (isOver(row)) this.#followers.delete(row.id);
    for (const follower of followers) {
      follower.rows.push(row);
      follower.wake();
    }
  }

  /**
   * Yields a task's current state and every later one, until it is READY or ERROR or the server
   * closes. Must be called synchronously after the task is created.
   */
  follow(first: StartTaskRow): AsyncGenerator<StartTaskRow> {
    const follower: Follower = { rows: [first], wake() {} };
    const followers = this.#followers.get(first.id) ?? new Set();
    this.#followers.set(first.id, followers.add(follower));
    return this.#read(follower, followers);
  }

  /**
   * Yields a task that an earlier request has begun, perhaps at another node, and then its later
   * states as `follow` does.
   */
  async *watch(first: StartTaskRow): AsyncGenerator<StartTaskRow> {
    yield first;
    for (let last = first; !isOver(last) && !this.#closed; ) {
      await sleep(watchMs, undefined, { ref: false });
      const row = await this.#store.get(first.id);
      if (!row) return;
      if (row.status !== last.status || row.detail !== last.detail) yield row;
      last = row;
    }
  }

  /** Ends the followers of a task that another node continues. */
  leave(id: string): void {
    const followers = this.#followers.get(id) ?? [];
    this.#followers.delete(id);
    for (const follower of followers) {
      follower.isOver = true;
      follower.wake();
    }
  }

  /** Ends all followers. */
  close(): void {
    this.#closed = true;
    for (const followers of this.#followers.values()) for (const { wake } of followers) wake();
  }

  async *#read(follower: Follower, followers: Set<Follower>): AsyncGenerator<StartTaskRow> {
    try {
      for (;;) {
        const row = follower.rows.shift();
        if (row) yield row;
        if (row && isOver(row)) return;
        if (follower.rows.length > 0) continue;
        if (this.#closed || follower.isOver) return;
        await new Promise<void>((resolve) => {
          follower.wake = resolve;
        });
      }
    } finally {
      followers.delete(follower);
    }
  }
}

function isOver({ status }: StartTaskRow): boolean {
  return status === "READY" || status === "ERROR";
}
