import { EncodingTrie, pieceLength } from "./encoding-trie.ts";
import { longestUnfinished, unfinishedEscape } from "./escapes.ts";
import { normaliseEscapes, toCharCodes } from "./normalised-text.ts";
import { encodeSecret, minEncodingLength } from "./secret-encodings.ts";
import { addRange, mergeRanges, type TextRange } from "./text-ranges.ts";

/**
 * How far back in a text the beginning of a piece can lie, in characters: blanks, colours and
 * escapes make it longer.
 */
const maxReach = 16 * pieceLength;

/**
 * Finds secrets in texts in one pass, in each encoding of `encodeSecret`. Takes linear time. Of a
 * secret with an encoding of more than `pieceLength` characters, each piece is found for itself.
 */
export class SecretMatcher {
  readonly #raw = new EncodingTrie();
  readonly #squeezed = new EncodingTrie();

  constructor(values: Iterable<string> = []) {
    for (const value of values) this.add(value);
  }

  get isEmpty(): boolean {
    return this.#raw.isEmpty;
  }

  /** Finds a value too from now on; a value that is too short is ignored. */
  add(value: string): void {
    if (value.length < minEncodingLength) return;
    this.#raw.add(value);
    for (const encoding of encodeSecret(value)) this.#squeezed.add(encoding);
  }

  /** Places of secrets in order, merged where they overlap or touch. */
  ranges(text: string): TextRange[] {
    if (this.isEmpty || text.length < minEncodingLength) return [];
    const codes = toCharCodes(text);
    const raw: TextRange[] = [];
    this.#raw.find(
      codes,
      codes.length,
      () => true,
      (from, to) => addRange(raw, from, to),
    );
    const view = normaliseEscapes(codes);
    const end = (to: number) => view.from[to - 1]! + view.spans[to - 1]!;
    const squeezed: TextRange[] = [];
    this.#squeezed.find(
      view.codes,
      view.length,
      (from, to) => !hasBlank(codes, view.from[from]!, end(to)),
      (from, to) => addRange(squeezed, view.from[from]!, end(to)),
    );
    return mergeRanges([...raw, ...squeezed]);
  }

  /**
   * Index from which the text may be the beginning of a secret that continues later; its length
   * when there is none. `telling`: ignores beginnings that are too short to reveal anything.
   */
  openFrom(text: string, telling = false): number {
    if (this.isEmpty) return text.length;
    const tail = text.slice(-maxReach);
    const shift = text.length - tail.length;
    // An escape alone reveals nothing.
    const whole = telling ? tail.length : tail.length - unfinishedLength(tail);
    const codes = toCharCodes(tail);
    const view = normaliseEscapes(codes.subarray(0, whole));
    const raw = this.#raw.openFrom(codes, codes.length, telling);
    const squeezedFrom = view.from[this.#squeezed.openFrom(view.codes, view.length, telling)]!;
    return shift + Math.min(raw, squeezedFrom, whole);
  }
}

function hasBlank(codes: Uint16Array, from: number, to: number): boolean {
  for (let index = from; index < to; index++) {
    const code = codes[index]!;
    if (code === 0x20 || (code >= 0x09 && code <= 0x0d)) return true;
  }
  return false;
}

/** Length of the incomplete escape at the end of a text. */
function unfinishedLength(text: string): number {
  return unfinishedEscape.exec(text.slice(-longestUnfinished))?.[0].length ?? 0;
}
