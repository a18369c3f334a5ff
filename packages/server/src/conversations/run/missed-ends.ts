/** How long a client may wait for a closing state that it has missed, ms; it polls each second. */
const memoryMs = 60_000;

/** Reads of the state without one of the events, after which a client has missed the end. */
const maxReads = 2;

interface End {
  at: number;
  /** Reads of the conversation's state since the closing state. */
  reads: number;
}

/**
 * Finds clients that have missed the closing state of a run, because they read it before the answer
 * to their run call. Such a client reads the conversation each second; one that has seen the end
 * reads the events (remote-clients.md section 4).
 */
export class MissedEnds {
  /** By conversation, the oldest first. */
  readonly #ends = new Map<string, End>();

  noteEnd(conversationId: string): void {
    for (const [id, { at }] of this.#ends) {
      if (performance.now() - at < memoryMs) break;
      this.#ends.delete(id);
    }
    this.#ends.delete(conversationId);
    this.#ends.set(conversationId, { at: performance.now(), reads: 0 });
  }

  /** Nobody waits for the last end: the events were read, or new work begins. */
  forget(conversationId: string): void {
    this.#ends.delete(conversationId);
  }

  /** Notes that a client reads the state. Returns whether it has missed the end, once per end. */
  noteStateRead(conversationId: string): boolean {
    const end = this.#ends.get(conversationId);
    if (!end || ++end.reads < maxReads) return false;
    this.#ends.delete(conversationId);
    return performance.now() - end.at < memoryMs;
  }
}
