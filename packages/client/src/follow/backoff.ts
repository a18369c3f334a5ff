/** A connection that lived so long was no failure, ms. */
const longMs = 10_000;

/** How long a follower waits before it connects again: short at first, then up to a maximum. */
export class Backoff {
  readonly #maxMs: number;
  #failures = 0;
  #liveSince = Number.POSITIVE_INFINITY;

  constructor(maxMs: number) {
    this.#maxMs = maxMs;
  }

  /** A connection has begun. */
  begin(): void {
    this.#liveSince = Date.now();
  }

  /** A connection has brought something new, so the next one probably does, too. */
  progress(): void {
    this.#failures = 0;
  }

  /** The time to wait after a connection has ended, ms; by chance, so that clients differ. */
  next(): number {
    if (Date.now() - this.#liveSince > longMs) this.#failures = 0;
    this.#liveSince = Number.POSITIVE_INFINITY;
    const longest = Math.min(100 * 2 ** this.#failures, this.#maxMs);
    this.#failures = Math.min(this.#failures + 1, 20);
    return longest * (0.5 + Math.random() / 2);
  }
}
