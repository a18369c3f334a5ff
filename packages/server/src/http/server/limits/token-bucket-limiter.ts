import { LRUCache } from "lru-cache";

/**
 * Maximum callers in memory; the least recently seen one is dropped and later gets a full bucket.
 */
const maxCallers = 10_000;

interface Bucket {
  tokens: number;
  /** When `tokens` was computed, ms. */
  at: number;
}

/** A token bucket per caller: `burst` requests at once, then `perSecond`. */
export class TokenBucketLimiter {
  readonly #perMs: number;
  readonly #burst: number;
  readonly #clock: () => number;
  readonly #buckets = new LRUCache<string, Bucket>({ max: maxCallers });

  /** `clock` gives monotonic milliseconds. */
  constructor(options: { perSecond: number; burst: number }, clock: () => number = () => performance.now()) {
    this.#perMs = options.perSecond / 1000;
    this.#burst = options.burst;
    this.#clock = clock;
  }

  /** Takes a token and returns 0, or returns the seconds until one is available. */
  take(caller: string): number {
    const bucket = this.#bucket(caller);
    if (bucket.tokens < 1) return (1 - bucket.tokens) / this.#perMs / 1000;
    bucket.tokens--;
    return 0;
  }

  #bucket(caller: string): Bucket {
    const now = this.#clock();
    const known = this.#buckets.get(caller);
    if (known) {
      known.tokens = Math.min(this.#burst, known.tokens + (now - known.at) * this.#perMs);
      known.at = now;
      return known;
    }
    const made = { tokens: this.#burst, at: now };
    this.#buckets.set(caller, made);
    return made;
  }
}
