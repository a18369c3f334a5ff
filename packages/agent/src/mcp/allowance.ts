/** Unrequested messages at once, and per second. */
const burst = 2_000;
const perSecond = 200;

/** Bytes that count as one more message. */
const bytesPerMessage = 16_384;

/** Rate limit of a server's unrequested messages. */
export class Allowance {
  #left = burst;
  #at = performance.now();

  /** Counts a message; false when the limit is exceeded. */
  take(bytes: number): boolean {
    const now = performance.now();
    this.#left = Math.min(burst, this.#left + ((now - this.#at) / 1000) * perSecond);
    this.#at = now;
    this.#left -= 1 + bytes / bytesPerMessage;
    return this.#left >= 0;
  }
}
