/** Limits how many deliveries run at once: over all, of one owner, and of one owner to one address. */
export class Slots {
  readonly #limits: readonly number[];
  readonly #used = new Map<string, number>();
  readonly #waiting: { keys: readonly string[]; enter: () => void }[] = [];

  /** `limits[i]` holds for the i-th key of a delivery. */
  constructor(limits: readonly number[]) {
    this.#limits = limits;
  }

  /** Waits for a place under every key; gives the function that leaves it. Who cannot go yet lets others pass. */
  async enter(keys: readonly string[]): Promise<() => void> {
    if (!this.#isFree(keys)) await new Promise<void>((enter) => this.#waiting.push({ keys, enter }));
    else this.#take(keys, 1);
    return () => {
      this.#take(keys, -1);
      this.#admit();
    };
  }

  #admit(): void {
    for (let index = 0; index < this.#waiting.length; ) {
      const { keys, enter } = this.#waiting[index]!;
      if (!this.#isFree(keys)) {
        index += 1;
        continue;
      }
      this.#waiting.splice(index, 1);
      this.#take(keys, 1);
      enter();
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
