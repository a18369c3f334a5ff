/** Counts what each owner has open, up to a limit. */
export class Places {
  readonly #max: number;
  readonly #taken = new Map<string, number>();

  constructor(max: number) {
    this.#max = max;
  }

  /** Takes a place; gives the function that leaves it, or undefined where the owner has all that there are. */
  enter(owner: string): (() => void) | undefined {
    const taken = this.#taken.get(owner) ?? 0;
    if (taken >= this.#max) return undefined;
    this.#taken.set(owner, taken + 1);
    return () => {
      const left = this.#taken.get(owner)! - 1;
      if (left === 0) this.#taken.delete(owner);
      else this.#taken.set(owner, left);
    };
  }
}
