import { LRUCache } from "lru-cache";

/**
 * Maximum callers in memory; the least recently seen one is dropped and later gets a full bucket.
 */
const maxCallers = 10_000;

export interface LimiterSources {
  clock?: (() => number) | undefined;
  countNodes?: (() => number) | undefined;
}

interface Bucket {
  tokens: number;
  /** When `tokens` was computed, ms. */
  at: number;
}

/**
 * A token bucket per caller: `burst` requests at once, then `perSecond`. Where several nodes count,
 * each has an equal share of the rate and of the burst, but at least one request (a second, at
 * once), because a client may ask any of them.
 */
export class TokenBucketLimiter {
  readonly #perSecond: number;
  readonly #burst: number;
  readonly #countNodes: () => number;
  readonly #clock: () => number;
  readonly #buckets = new LRUCache<string, Bucket>({ max: maxCallers });

  /** `clock` gives monotonic milliseconds, `countNodes` the number of living nodes. */
  constructor(
    options: { perSecond: number; burst: number },
    { clock = () => performance.now(), countNodes = () => 1 }: LimiterSources = {},
  ) {
    this.#perSecond = options.perSecond;
    this.#burst = options.burst;
    this.#countNodes = countNodes;
    this.#clock = clock;
  }

  /** Takes a token and returns 0, or returns the seconds until one is available. */
  take(caller: string): number {
    const nodes = Math.max(1, this.#countNodes());
    const perSecond = share(this.#perSecond, nodes);
    const bucket = this.#bucket(caller, perSecond / 1000, share(this.#burst, nodes));
    if (bucket.tokens < 1) return (1 - bucket.tokens) / perSecond;
    bucket.tokens--;
    return 0;
  }

  #bucket(caller: string, perMs: number, burst: number): Bucket {
    const now = this.#clock();
    const known = this.#buckets.get(caller);
    if (known) {
      known.tokens = Math.min(burst, known.tokens + (now - known.at) * perMs);
      known.at = now;
      return known;
    }
    const made = { tokens: burst, at: now };
    this.#buckets.set(caller, made);
    return made;
  }
}

/** The share of one of several nodes in a limit; a limit below 1 stays as it is. */
function share(limit: number, nodes: number): number {
  return Math.max(Math.min(1, limit), limit / nodes);
}
