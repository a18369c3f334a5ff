/** Messages that a server may send at once beyond those that it was asked for, and how many more each second. */
const burst = 2_000;
const perSecond = 200;

/** Bytes that count as one message more. */
const bytesPerMessage = 16_384;

/** What a server may still send before it counts as flooding. */
export class Allowance {
  #left = burst;
  #at = performance.now();

  /** Takes a message out; false when there is nothing left. */
  take(bytes: number): boolean {
    const now = performance.now();
    this.#left = Math.min(burst, this.#left + ((now - this.#at) / 1000) * perSecond);
    this.#at = now;
    this.#left -= 1 + bytes / bytesPerMessage;
    return this.#left >= 0;
  }
}
