/** A connection that lasted longer than this counts as a success, ms. */
const longMs = 10_000;

/** How long a follower waits before it connects again: short at first, then up to a maximum. */
export class Backoff {
  readonly #maxMs: number;
  #failures = 0;
  #liveSince = Number.POSITIVE_INFINITY;

  constructor(maxMs: number) {
    this.#maxMs = maxMs;
  }

  /** Notes that a connection has opened. */
  begin(): void {
    this.#liveSince = Date.now();
  }

  /** Makes the next wait short again, because the connection delivered an event. */
  progress(): void {
    this.#failures = 0;
  }

  /** Returns how long to wait after the end of a connection, ms. Chance sets clients apart. */
  next(): number {
    if (Date.now() - this.#liveSince > longMs) this.#failures = 0;
    this.#liveSince = Number.POSITIVE_INFINITY;
    const longest = Math.min(100 * 2 ** this.#failures, this.#maxMs);
    this.#failures = Math.min(this.#failures + 1, 20);
    return longest * (0.5 + Math.random() / 2);
  }
}
