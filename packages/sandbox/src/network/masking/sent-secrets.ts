import { LRUCache } from "lru-cache";
import { Patterns } from "./patterns.ts";

/** Values that are remembered; a user has at most 200 secrets, and some are renewed. */
const maxValues = 256;

/** Lists of values whose patterns are kept: a sandbox asks few hosts at a time. */
const maxLists = 16;

/** The values that a sandbox has sent anywhere, and which any server may send back to it. */
export class SentSecrets {
  /** From the longest unused. */
  readonly #sent = new Set<string>();
  /** Of sent values, and of forgotten ones until there are too many. */
  #patterns = new Patterns();
  #forgotten = 0;
  readonly #lists = new LRUCache<string, Patterns>({ max: maxLists });

  /** Remembers a value (one character per byte). */
  add(value: string): void {
    if (this.#sent.delete(value)) {
      this.#sent.add(value);
      return;
    }
    this.#sent.add(value);
    this.#patterns.add(value);
    if (this.#sent.size <= maxValues) return;
    this.#sent.delete(this.#sent.values().next().value!);
    if (++this.#forgotten < maxValues) return;
    this.#forgotten = 0;
    this.#patterns = new Patterns(this.#sent);
  }

  get isEmpty(): boolean {
    return this.#sent.size === 0;
  }

  /** Patterns of all sent values. */
  get patterns(): Patterns {
    return this.#patterns;
  }

  /** Patterns of other values. */
  patternsOf(values: readonly string[]): Patterns {
    const list = values.join("\0");
    const patterns = this.#lists.get(list) ?? new Patterns(values);
    this.#lists.set(list, patterns);
    return patterns;
  }
}
