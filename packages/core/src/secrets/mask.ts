import { maskText } from "@sandpiper/wire";
import { LRUCache } from "lru-cache";
import { SecretMatcher } from "./secret-matcher.ts";

/** Shorter values are too common in ordinary text to be replaced everywhere. */
const minLength = 6;

/**
 * Maximum characters of one owner's values: frequent changes must neither fill the memory nor push
 * out secrets of others.
 */
const maxCharacters = 4 * 1024 * 1024;
/** Added to the length of each value, because every value costs time for each log line. */
const valueCost = 1024;

/**
 * Placeholders such as `ollama` or `not-needed` that users set as a key when an endpoint needs
 * none. They are not hidden in outgoing texts, unless a user registered the word as a named secret.
 */
const word = /^(?=.{1,14}$)[a-z]+(?:[-_ ][a-z]+)?$/i;

/** The owner name under which the keys of an owner are registered. */
const keysOf = (owner: string) => `keys of ${owner}`;

/** Matchers that are kept ready. */
const maxMatchers = 200;

interface Owned {
  /** Values, the one that was registered longest ago first, each with its forms. */
  values: Map<string, string[]>;
  characters: number;
}

/** Knows the secrets of a process and takes them out of text: the one place that masks. */
export class SecretMask {
  readonly #owners = new Map<string, Owned>();
  readonly #maxCharacters: number;
  readonly #matchers = new LRUCache<string, SecretMatcher>({ max: maxMatchers });
  #longest = 0;

  constructor(options: { maxCharacters?: number } = {}) {
    this.#maxCharacters = options.maxCharacters ?? maxCharacters;
  }

  /**
   * Masks the value from now on, also in its JSON and URL forms. Values under 6 characters are
   * ignored. A value without `owner` is kept forever. When an owner's values exceed a bound, the
   * oldest are dropped; registering a value again makes it the newest.
   */
  registerSecret(value: string, owner = ""): void {
    if (value.length < minLength) return;
    const own: Owned = this.#owners.get(owner) ?? { values: new Map(), characters: 0 };
    this.#owners.set(owner, own);
    const known = own.values.get(value);
    const forms = known ?? [
      ...new Set([value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())]),
    ];
    own.values.delete(value);
    own.values.set(value, forms);
    if (known) return;
    if (owner === "") this.#matchers.clear();
    else this.#matchers.delete(owner);
    if (owner.startsWith(keysOf(""))) this.#matchers.delete(owner.slice(keysOf("").length));
    own.characters += cost(forms);
    this.#longest = Math.max(this.#longest, ...forms.map((form) => form.length));
    if (owner === "") return;
    for (const [oldest, old] of own.values) {
      if (own.characters <= this.#maxCharacters || oldest === value) break;
      own.values.delete(oldest);
      own.characters -= cost(old);
    }
  }

  /** As `registerSecret`, for a key that the server uses for an owner, such as that of a model. */
  registerKey(value: string, owner: string): void {
    this.registerSecret(value, keysOf(owner));
  }

  /**
   * A matcher for the secrets and keys of an owner and those without owner, in any encoding.
   * Secrets of other owners are excluded, because a caller could otherwise guess them. Cached until
   * a secret is registered.
   */
  matcher(owner: string): SecretMatcher {
    const matcher = this.#matchers.get(owner) ?? this.#newMatcher(owner);
    this.#matchers.set(owner, matcher);
    return matcher;
  }

  #newMatcher(owner: string): SecretMatcher {
    const valuesOf = (name: string) => [...(this.#owners.get(name)?.values.keys() ?? [])];
    const keys = ["", keysOf(owner)].flatMap(valuesOf).filter((value) => !word.test(value));
    return new SecretMatcher([...valuesOf(owner), ...keys]);
  }

  /** The text with every secret replaced; secrets that overlap or touch become one mask. */
  mask(text: string): string {
    let masked = "";
    let done = 0;
    for (const [from, to] of this.#ranges(text)) {
      masked += text.slice(done, from) + maskText;
      done = to;
    }
    return masked + text.slice(done);
  }

  /**
   * Masks a text that arrives in chunks, including secrets that are split between them. `write`
   * returns the text that is safe to show and holds back a possible beginning of a secret; `end`
   * returns the rest.
   */
  stream(): { write(piece: string): string; end(): string } {
    let held = "";
    return {
      write: (piece) => {
        held += piece;
        const cut = this.#safeLength(held);
        const shown = this.mask(held.slice(0, cut));
        held = held.slice(cut);
        return shown;
      },
      end: () => {
        const shown = this.mask(held);
        held = "";
        return shown;
      },
    };
  }

  *#forms(): Generator<string> {
    for (const { values } of this.#owners.values()) for (const forms of values.values()) yield* forms;
  }

  /** Places of secrets in order, merged where they overlap or touch. */
  #ranges(text: string): [number, number][] {
    const found: [number, number][] = [];
    for (const value of this.#forms()) {
      for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1))
        found.push([at, at + value.length]);
    }
    const merged: [number, number][] = [];
    for (const range of found.sort((a, b) => a[0] - b[0])) {
      const last = merged.at(-1);
      if (last && range[0] <= last[1]) last[1] = Math.max(last[1], range[1]);
      else merged.push(range);
    }
    return merged;
  }

  /** Length of the part of a text that later text cannot make part of a secret. */
  #safeLength(text: string): number {
    let cut = text.length;
    for (let from = Math.max(0, text.length - this.#longest + 1); from < text.length; from++) {
      const tail = text.slice(from);
      if (this.#forms().some((value) => value.length > tail.length && value.startsWith(tail))) {
        cut = from;
        break;
      }
    }
    // The held-back text must not split a secret that is already complete.
    for (const [from, to] of this.#ranges(text)) if (from < cut && cut < to) cut = from;
    return cut;
  }
}

function cost(forms: readonly string[]): number {
  return forms.reduce((sum, form) => sum + form.length, valueCost);
}
