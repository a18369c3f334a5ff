/** Counts how many records use each layer. */
export class LayerReferences {
  readonly #counts = new Map<string, number>();

  add(names: string[]): void {
    for (const name of names) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  /** Returns the names that no record uses any more. */
  release(names: string[]): string[] {
    return names.filter((name) => {
      const left = (this.#counts.get(name) ?? 0) - 1;
      if (left > 0) this.#counts.set(name, left);
      else this.#counts.delete(name);
      return left <= 0;
    });
  }

  has(name: string): boolean {
    return this.#counts.has(name);
  }
}
