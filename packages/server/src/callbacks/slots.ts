/** Limits how many deliveries run at once: over all, of one owner, and of one owner to one address. */
export class Slots {
  readonly #limits: readonly number[];
  readonly #used = new Map<string, number>();
  readonly #waiting = new Set<{ keys: readonly string[]; enter: () => void }>();

  /** `limits[i]` holds for the i-th key of a delivery. */
  constructor(limits: readonly number[]) {
    this.#limits = limits;
  }

  /**
   * Waits for a place under every key; gives the function that leaves it, or undefined where the signal came first. Who cannot go yet lets
   * others pass.
   */
  async enter(keys: readonly string[], signal: AbortSignal): Promise<(() => void) | undefined> {
    if (this.#isFree(keys)) this.#take(keys, 1);
    else if (!(await this.#wait(keys, signal))) return undefined;
    return () => {
      this.#take(keys, -1);
      this.#admit();
    };
  }

  #wait(keys: readonly string[], signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const waiter = {
        keys,
        enter: () => {
          signal.removeEventListener("abort", leave);
          resolve(true);
        },
      };
      const leave = () => {
        if (this.#waiting.delete(waiter)) resolve(false);
      };
      if (signal.aborted) return resolve(false);
      this.#waiting.add(waiter);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  #admit(): void {
    for (const waiter of this.#waiting) {
      if (!this.#isFree(waiter.keys)) continue;
      this.#waiting.delete(waiter);
      this.#take(waiter.keys, 1);
      waiter.enter();
    }
  }

  #isFree(keys: readonly string[]): boolean {
    return keys.every((key, index) => (this.#used.get(key) ?? 0) < this.#limits[index]!);
  }

  #take(keys: readonly string[], change: number): void {
    for (const key of keys) {
      const used = (this.#used.get(key) ?? 0) + change;
      if (used === 0) this.#used.delete(key);
      else this.#used.set(key, used);
    }
  }
}
