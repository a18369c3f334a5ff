/** The most that is remembered. */
const most = 500;

/** A bounded memory of what was seen, the oldest forgotten first. */
export class Remembered {
  readonly #known = new Set<string>();

  has(key: string): boolean {
    return this.#known.has(key);
  }

  add(key: string): void {
    this.#known.add(key);
    const [oldest] = this.#known;
    if (this.#known.size > most && oldest !== undefined) this.#known.delete(oldest);
  }
}
