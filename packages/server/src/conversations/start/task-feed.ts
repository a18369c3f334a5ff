import type { StartTaskRow, StartTaskStore } from "../../store/start-task-store.ts";

type Change = Parameters<StartTaskStore["update"]>[1];

/** A reader of a task's changes: what it has not read yet, and how it is told of more. */
interface Follower {
  rows: StartTaskRow[];
  wake: () => void;
}

/** Changes of start tasks: stored first, then told to those who follow a task. */
export class TaskFeed {
  readonly #store: Pick<StartTaskStore, "update">;
  readonly #followers = new Map<string, Set<Follower>>();
  #closed = false;

  constructor(store: Pick<StartTaskStore, "update">) {
    this.#store = store;
  }

  async update(id: string, change: Change): Promise<void> {
    const row = await this.#store.update(id, change);
    const followers = this.#followers.get(id) ?? [];
    if (isOver(row)) this.#followers.delete(id);
    for (const follower of followers) {
      follower.rows.push(row);
      follower.wake();
    }
  }

  /**
   * A task as it is now and after every change from now on, until it is READY or ERROR or this process ends. It is to be called in the moment in which the
   * task is made.
   */
  follow(first: StartTaskRow): AsyncGenerator<StartTaskRow> {
    const follower: Follower = { rows: [first], wake() {} };
    const followers = this.#followers.get(first.id) ?? new Set();
    this.#followers.set(first.id, followers.add(follower));
    return this.#read(follower, followers);
  }

  /** Ends what follows. */
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
        if (this.#closed) return;
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
