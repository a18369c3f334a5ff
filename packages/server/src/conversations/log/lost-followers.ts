/** How long a new follower counts as the return of a lost one, ms; clients retry within 30 s. */
const memoryMs = 60_000;

interface Loss {
  at: number;
  /** Whether a run has ended since. */
  missesEnd: boolean;
}

/** Conversations whose followers lost their connections a short time ago: they come back. */
export class LostFollowers {
  /** The last loss by conversation, the oldest first. */
  readonly #losses = new Map<string, Loss>();

  noteLoss(conversationId: string): void {
    const missesEnd = this.#find(conversationId)?.missesEnd ?? false;
    this.#losses.delete(conversationId);
    this.#losses.set(conversationId, { at: performance.now(), missesEnd });
  }

  noteEnd(conversationId: string): void {
    const loss = this.#find(conversationId);
    if (loss) loss.missesEnd = true;
  }

  /** Whether a follower that comes back may have missed an end; undefined: none is lost. */
  mayMissEnd(conversationId: string): boolean | undefined {
    return this.#find(conversationId)?.missesEnd;
  }

  #find(conversationId: string): Loss | undefined {
    for (const [id, { at }] of this.#losses) {
      if (performance.now() - at < memoryMs) break;
      this.#losses.delete(id);
    }
    return this.#losses.get(conversationId);
  }
}
