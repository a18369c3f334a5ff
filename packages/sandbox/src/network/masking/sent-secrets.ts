import { makePatterns, type Pattern } from "./patterns.ts";

/** Values that are remembered; a user has at most 200 secrets, and some are renewed. */
const maxValues = 256;

/** The values that a sandbox has sent anywhere, and which any server may send back to it. */
export class SentSecrets {
  /** From the longest unused. */
  readonly #sent = new Set<string>();
  /** Of sent values and of others that are masked. */
  readonly #cache = new Map<string, Pattern[]>();
  #all: readonly Pattern[] | undefined;

  /** Remembers a value (one character per byte). */
  add(value: string): void {
    if (this.#sent.delete(value)) {
      this.#sent.add(value);
      return;
    }
    this.#sent.add(value);
    if (this.#sent.size > maxValues) this.#sent.delete(this.#sent.values().next().value!);
    this.#all = undefined;
  }

  get isEmpty(): boolean {
    return this.#sent.size === 0;
  }

  /** Patterns of all sent values; the same list until a further value is sent. */
  get patterns(): readonly Pattern[] {
    this.#all ??= this.patternsOf(this.#sent);
    return this.#all;
  }

  /** Patterns of any values. */
  patternsOf(values: Iterable<string>): Pattern[] {
    return [...values].flatMap((value) => {
      const known = this.#cache.get(value) ?? makePatterns(value);
      this.#cache.delete(value);
      this.#cache.set(value, known);
      if (this.#cache.size > 2 * maxValues) this.#cache.delete(this.#cache.keys().next().value!);
      return known;
    });
  }
}
