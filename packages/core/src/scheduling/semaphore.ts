export interface Ticket {
  /** Resolves when the holder may begin. */
  ready: Promise<void>;
  /** Gives the ticket back, admitted or not. Further calls do nothing. */
  release(): void;
}

/**
 * Limits how many holders each of several keys has at once, for example of a user and of an
 * address.
 */
export class KeyedSemaphore {
  readonly #limits: readonly number[];
  readonly #held = new Map<string, number>();
  readonly #waiting = new Set<{ keys: readonly string[]; admit: () => void }>();

  /** `limits[i]` applies to the i-th key of a holder. */
  constructor(limits: readonly number[]) {
    this.#limits = limits;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  get isIdle(): boolean {
    return this.#held.size === 0 && this.#waiting.size === 0;
  }

  /** Queues for all keys at once. A holder that waits for one key lets others pass. */
  enter(keys: readonly string[]): Ticket {
    const { promise: ready, resolve: admit } = Promise.withResolvers<void>();
    const entry = { keys, admit };
    if (this.#isFree(keys)) this.#admit(entry);
    else this.#waiting.add(entry);
    let isReleased = false;
    const release = () => {
      if (isReleased) return;
      isReleased = true;
      if (this.#waiting.delete(entry)) return;
      this.#count(keys, -1);
      for (const next of this.#waiting) if (this.#isFree(next.keys)) this.#admit(next);
    };
    return { ready, release };
  }

  /**
   * Takes all keys now. Gives the function that releases them, undefined when one is at its limit.
   */
  tryAcquire(keys: readonly string[]): (() => void) | undefined {
    return this.#isFree(keys) ? this.enter(keys).release : undefined;
  }

  /**
   * Waits for all keys. Gives the function that releases them, undefined when the signal came
   * first.
   */
  async acquire(keys: readonly string[], signal: AbortSignal): Promise<(() => void) | undefined> {
    const { ready, release } = this.enter(keys);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const giveUp = () => resolve(false);
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    void ready.then(() => resolve(true));
    const isAdmitted = await promise;
    signal.removeEventListener("abort", giveUp);
    if (isAdmitted) return release;
    release();
    return undefined;
  }

  #admit(entry: { keys: readonly string[]; admit: () => void }): void {
    this.#waiting.delete(entry);
    this.#count(entry.keys, 1);
    entry.admit();
  }

  #isFree(keys: readonly string[]): boolean {
    return keys.every((key, index) => (this.#held.get(key) ?? 0) < this.#limits[index]!);
  }

  #count(keys: readonly string[], change: number): void {
    for (const key of keys) {
      const held = (this.#held.get(key) ?? 0) + change;
      if (held === 0) this.#held.delete(key);
      else this.#held.set(key, held);
    }
  }
}

/** Limits how many holders there are at once; the others wait in order. */
export class Semaphore {
  readonly #permits: KeyedSemaphore;

  constructor(max: number) {
    this.#permits = new KeyedSemaphore([max]);
  }

  get waiting(): number {
    return this.#permits.waiting;
  }

  get isIdle(): boolean {
    return this.#permits.isIdle;
  }

  enter(): Ticket {
    return this.#permits.enter([""]);
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    const { ready, release } = this.enter();
    await ready;
    try {
      return await work();
    } finally {
      release();
    }
  }
}
