import { normaliseEscapes, toCharCodes, unfinishedEscape } from "./normalised-text.ts";
import { encodeSecret, minEncodingLength, type SecretEncoding } from "./secret-encodings.ts";

/** A place in a text: from (inclusive), to (exclusive). */
export type TextRange = [from: number, to: number];

/**
 * Maximum comparisons per character of a text, and a minimum budget for any text. Only a text made
 * for it exceeds them.
 */
const comparedPerCharacter = 64;
const comparedAlways = 1_000_000;

/** Number of characters in the hash of a window. */
const block = 3;
const tableSize = 65_536;

/**
 * Finds secrets in texts in one pass, in each encoding of `secretForms`. Takes linear time: a text
 * that exceeds the budget counts as one secret.
 */
export class SecretMatcher {
  readonly #raw: FormTable;
  readonly #squeezed: FormTable;

  constructor(values: Iterable<string>) {
    const known = [...new Set(values)].filter((value) => value.length >= minEncodingLength);
    this.#raw = new FormTable(known.map((text) => ({ text, spread: true })));
    this.#squeezed = new FormTable(known.flatMap(encodeSecret));
  }

  get isEmpty(): boolean {
    return this.#raw.longest === 0;
  }

  /** Places of secrets in order, merged where they overlap or touch. */
  ranges(text: string): TextRange[] {
    if (this.isEmpty || text.length < minEncodingLength) return [];
    const codes = toCharCodes(text);
    const view = normaliseEscapes(codes);
    const found: TextRange[] = [];
    const budget = { left: comparedAlways + comparedPerCharacter * text.length };
    this.#raw.find(codes, codes.length, budget, (from, to) => void found.push([from, to]));
    this.#squeezed.find(view.codes, view.length, budget, (from, to, { spread }) => {
      const range: TextRange = [view.from[from]!, view.from[to - 1]! + view.spans[to - 1]!];
      if (spread || !hasBlank(codes, range)) found.push(range);
    });
    return budget.left < 0 ? [[0, text.length]] : mergeRanges(found);
  }

  /**
   * Index from which the text may be the beginning of a secret that continues later; its length
   * when there is none. `telling`: ignores beginnings that are too short to reveal anything.
   */
  openFrom(text: string, telling = false): number {
    if (this.isEmpty) return text.length;
    const tail = text.slice(-1 - this.#reach(text));
    const shift = text.length - tail.length;
    // An escape alone reveals nothing.
    const whole = (telling ? undefined : unfinishedEscape.exec(tail)?.index) ?? tail.length;
    const codes = toCharCodes(tail);
    const view = normaliseEscapes(codes.subarray(0, whole));
    const raw = this.#raw.openFrom(codes, codes.length, telling);
    const squeezedFrom = view.from[this.#squeezed.openFrom(view.codes, view.length, telling)]!;
    return shift + Math.min(raw, squeezedFrom, whole);
  }

  /** How far back the beginning of a secret can lie: blanks and escapes make it longer. */
  #reach(text: string): number {
    return Math.min(text.length, 6 * Math.max(this.#raw.longest, this.#squeezed.longest) + 64);
  }
}

/** Searches many encodings at once (after Wu and Manber). */
class FormTable {
  readonly longest: number;
  readonly #shifts = new Uint8Array(tableSize).fill(minEncodingLength - block + 1);
  /** By the hash of their first `minForm` characters. */
  readonly #byWindow = new Map<number, SecretEncoding[]>();
  /**
   * Each beginning of an encoding that is shorter than a window; true when it reveals something.
   */
  readonly #beginnings = new Map<string, boolean>();

  constructor(forms: readonly SecretEncoding[]) {
    this.longest = forms.reduce((most, { text }) => Math.max(most, text.length), 0);
    const texts = new Set<string>();
    for (const form of forms) {
      if (texts.has(form.text)) continue;
      texts.add(form.text);
      const codes = toCharCodes(form.text.slice(0, minEncodingLength));
      for (let end = block - 1; end < minEncodingLength; end++) {
        const place = blockHash(codes, end);
        this.#shifts[place] = Math.min(this.#shifts[place]!, minEncodingLength - 1 - end);
      }
      const window = windowHash(codes, 0);
      this.#byWindow.set(window, [...(this.#byWindow.get(window) ?? []), form]);
      // Shorter encodings may show fewer characters.
      const telling = Math.min(4, Math.floor(form.text.length / 3));
      for (let length = 1; length < minEncodingLength; length++) {
        const beginning = form.text.slice(0, length);
        this.#beginnings.set(beginning, length >= telling || this.#beginnings.get(beginning) === true);
      }
    }
  }

  find(
    codes: Uint16Array,
    length: number,
    budget: { left: number },
    found: (from: number, to: number, form: SecretEncoding) => void,
  ): void {
    if (this.longest === 0) return;
    const shifts = this.#shifts;
    let end = minEncodingLength - 1;
    while (end < length) {
      const shift = shifts[blockHash(codes, end)]!;
      if (shift > 0) {
        end += shift;
        continue;
      }
      const from = end - minEncodingLength + 1;
      for (const form of this.#byWindow.get(windowHash(codes, from)) ?? []) {
        const same = sameLength(codes, length, from, form.text);
        budget.left -= same + 1;
        if (same === form.text.length) found(from, from + same, form);
      }
      if (budget.left < 0) return;
      end++;
    }
  }

  /** The first place from which on the text is a beginning of a form, and not the whole of it. */
  openFrom(codes: Uint16Array, length: number, telling: boolean): number {
    const budget = comparedAlways;
    let compared = 0;
    for (let from = Math.max(0, length - this.longest + 1); from <= length - minEncodingLength; from++) {
      for (const form of this.#byWindow.get(windowHash(codes, from)) ?? []) {
        if (form.text.length <= length - from) continue;
        const same = sameLength(codes, length, from, form.text);
        compared += same + 1;
        // Text that takes too long to match is held back.
        if (same === length - from || compared > budget) return from;
      }
    }
    for (let from = Math.max(0, length - minEncodingLength + 1); from < length; from++) {
      const isRevealing = this.#beginnings.get(String.fromCharCode(...codes.subarray(from, length)));
      if (isRevealing || (!telling && isRevealing === false)) return from;
    }
    return length;
  }
}

/** How many characters of a form stand at a place. */
function sameLength(codes: Uint16Array, length: number, from: number, text: string): number {
  const most = Math.min(text.length, length - from);
  let same = 0;
  while (same < most && codes[from + same] === text.charCodeAt(same)) same++;
  return same;
}

function blockHash(codes: Uint16Array, end: number): number {
  return (codes[end]! ^ (codes[end - 1]! << 5) ^ (codes[end - 2]! << 10)) & (tableSize - 1);
}

function windowHash(codes: Uint16Array, from: number): number {
  let hash = 0;
  for (let index = from; index < from + minEncodingLength; index++)
    hash = (Math.imul(hash, 31) + codes[index]!) | 0;
  return hash;
}

function hasBlank(codes: Uint16Array, [from, to]: TextRange): boolean {
  for (let index = from; index < to; index++) if (codes[index]! <= 0x20) return true;
  return false;
}

/** Ranges in order, merged where they overlap or touch. */
export function mergeRanges(ranges: TextRange[]): TextRange[] {
  const result: TextRange[] = [];
  for (const range of ranges.sort((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last && range[0] <= last[1]) last[1] = Math.max(last[1], range[1]);
    else result.push(range);
  }
  return result;
}
