import { maskText } from "@sandpiper/wire";
import { LRUCache } from "lru-cache";
import { EncodingTrie } from "./encoding-trie.ts";
import { toCharCodes } from "./normalised-text.ts";
import { minEncodingLength } from "./secret-encodings.ts";
import { SecretMatcher } from "./secret-matcher.ts";
import { addRange, replaceRanges, type TextRange } from "./text-ranges.ts";

/**
 * Maximum characters of one owner's values: frequent changes must neither fill the memory nor push
 * out secrets of others.
 */
const maxCharacters = 4 * 1024 * 1024;
/** Added to the length of each value, because a short one takes memory too. */
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
  /** Values with their costs, the one that was registered longest ago first. */
  values: Map<string, number>;
  characters: number;
  /** Characters of dropped values that the owner's matcher still knows. */
  dropped: number;
}

/** Knows the secrets of a process and takes them out of text: the one place that masks. */
export class SecretMask {
  readonly #owners = new Map<string, Owned>();
  readonly #maxCharacters: number;
  readonly #matchers = new LRUCache<string, SecretMatcher>({ max: maxMatchers });
  /** Characters of all values. */
  #characters = 0;
  /** The values in the forms that logs may have; rebuilt when most of them were dropped. */
  #logged = new EncodingTrie();
  #loggedCharacters = 0;

  constructor(options: { maxCharacters?: number } = {}) {
    this.#maxCharacters = options.maxCharacters ?? maxCharacters;
  }

  /**
   * Masks the value from now on, also in its JSON and URL forms. Values under 6 characters are
   * ignored. A value without `owner` is kept forever. When an owner's values exceed a bound, the
   * oldest are dropped; registering a value again makes it the newest.
   */
  registerSecret(value: string, owner = ""): void {
    if (value.length < minEncodingLength) return;
    const own: Owned = this.#owners.get(owner) ?? { values: new Map(), characters: 0, dropped: 0 };
    this.#owners.set(owner, own);
    const known = own.values.get(value);
    const cost = known ?? valueCost + value.length;
    own.values.delete(value);
    own.values.set(value, cost);
    if (known !== undefined) return;
    own.characters += cost;
    this.#characters += cost;
    if (owner !== "") this.#dropOldest(own, value);
    this.#addToMatchers(value, owner, own);
    if (own.dropped > this.#maxCharacters) own.dropped = 0;
    this.#addToLogged(value, cost);
  }

  /** As `registerSecret`, for a key that the server uses for an owner, such as that of a model. */
  registerKey(value: string, owner: string): void {
    this.registerSecret(value, keysOf(owner));
  }

  /**
   * A matcher for the secrets and keys of an owner and those without owner, in any encoding.
   * Secrets of other owners are excluded, because a caller could otherwise guess them. It also
   * finds the secrets that are registered later.
   */
  matcher(owner: string): SecretMatcher {
    const matcher = this.#matchers.get(owner) ?? this.#newMatcher(owner);
    this.#matchers.set(owner, matcher);
    return matcher;
  }

  /** The text with every secret replaced; secrets that overlap or touch become one mask. */
  mask(text: string): string {
    const codes = toCharCodes(text);
    const ranges: TextRange[] = [];
    this.#logged.find(
      codes,
      codes.length,
      () => true,
      (from, to) => addRange(ranges, from, to),
    );
    return replaceRanges(text, ranges, maskText);
  }

  #newMatcher(owner: string): SecretMatcher {
    const valuesOf = (name: string) => [...(this.#owners.get(name)?.values.keys() ?? [])];
    const keys = ["", keysOf(owner)].flatMap(valuesOf).filter((value) => !word.test(value));
    return new SecretMatcher([...valuesOf(owner), ...keys]);
  }

  #dropOldest(own: Owned, newest: string): void {
    for (const [oldest, cost] of own.values) {
      if (own.characters <= this.#maxCharacters || oldest === newest) break;
      own.values.delete(oldest);
      own.characters -= cost;
      own.dropped += cost;
      this.#characters -= cost;
    }
  }

  /** Adds a value to the matchers that are ready: a new matcher takes long for many values. */
  #addToMatchers(value: string, owner: string, { dropped }: Owned): void {
    const isKeys = owner.startsWith(keysOf(""));
    const reader = isKeys ? owner.slice(keysOf("").length) : owner;
    if (dropped > this.#maxCharacters) this.#matchers.delete(reader);
    if ((isKeys || owner === "") && word.test(value)) return;
    const readers = owner === "" ? this.#matchers.values() : [this.#matchers.peek(reader)];
    for (const matcher of readers) matcher?.add(value);
  }

  #addToLogged(value: string, cost: number): void {
    this.#loggedCharacters += cost;
    if (this.#loggedCharacters <= 2 * this.#characters + this.#maxCharacters)
      return addForms(this.#logged, value);
    this.#logged = new EncodingTrie();
    this.#loggedCharacters = this.#characters;
    for (const { values } of this.#owners.values())
      for (const one of values.keys()) addForms(this.#logged, one);
  }
}

/** Adds the forms that logs may have: the value as it is, in JSON and in URLs. */
function addForms(trie: EncodingTrie, value: string): void {
  for (const form of [value, JSON.stringify(value).slice(1, -1), encodeURIComponent(value.toWellFormed())])
    trie.add(form);
}
