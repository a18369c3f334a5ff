/** Values by their name; all are forgotten before they are too many or too large together. */
export class BoundedCache<Value> {
  readonly #most: { entries: number; characters: number };
  readonly #values = new Map<string, { value: Value; characters: number }>();
  #characters = 0;

  constructor(most: { entries: number; characters: number }) {
    this.#most = most;
  }

  get(name: string): Value | undefined {
    return this.#values.get(name)?.value;
  }

  /** Keeps a value in the place of the earlier one; `characters` is about what it holds, without its name. */
  set(name: string, value: Value, characters: number): void {
    this.#characters += name.length + characters - this.#sizeOf(name);
    if (this.#characters > this.#most.characters || this.#values.size >= this.#most.entries) {
      this.#values.clear();
      this.#characters = name.length + characters;
    }
    this.#values.set(name, { value, characters });
  }

  #sizeOf(name: string): number {
    const known = this.#values.get(name);
    return known ? name.length + known.characters : 0;
  }
}
