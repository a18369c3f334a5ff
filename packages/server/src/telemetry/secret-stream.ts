import { mergeRanges, type SecretMatcher, type TextRange } from "./secret-matcher.ts";

/** Shortest beginning of a secret that is hidden at the end of an output that goes on later. */
const minBeginning = 4;

/** Takes secrets out of a whole text. */
export function hideSecrets(matcher: SecretMatcher, text: string, by: string): string {
  return replaceRanges(text, matcher.ranges(text), by);
}

/** Takes secrets out of a text that arrives in pieces, wherever it is cut. What may be the beginning of a secret is held back. */
export class SecretStream {
  readonly #matcher: SecretMatcher;
  readonly #by: string;
  #held = "";
  /** How much of the beginning of what is held back is known to be a secret, and was shown as one. */
  #known = 0;

  constructor(matcher: SecretMatcher, by: string) {
    this.#matcher = matcher;
    this.#by = by;
  }

  /** Gives what can be shown now. */
  write(piece: string): string {
    return this.#next(piece, true);
  }

  /** Gives the rest. */
  end(): string {
    return this.#next("", false);
  }

  #next(piece: string, more: boolean): string {
    const text = this.#held + piece;
    if (text === "") return "";
    const ranges = mergeRanges([...(this.#known > 0 ? [[0, this.#known] as TextRange] : []), ...this.#matcher.ranges(text)]);
    const cut = more ? this.#matcher.openFrom(text) : text.length;
    const start = this.#known > 0 ? Math.min(ranges[0]![1], cut) : 0;
    const shown = ranges
      .filter(([from]) => from >= start && from < cut)
      .map(([from, to]): TextRange => [from, Math.min(to, cut)]);
    const result = replaceRanges(text.slice(0, cut), shown, this.#by, start);
    const across = ranges.find(([from, to]) => from < cut && to > cut);
    this.#known = across ? across[1] - cut : 0;
    this.#held = text.slice(cut);
    return result;
  }
}

/**
 * Takes secrets out of outputs that follow each other, such as those of a command that is asked again and again what it has printed. Nothing is held back: a
 * beginning of a secret at the end of one is hidden there, and what goes on with it in the next.
 */
export class SecretSequence {
  /** The end of the last output, as it was. */
  #tail = "";

  /** `more`: the next output goes on where this one ends. */
  next(matcher: SecretMatcher, text: string, by: string, more: boolean): string {
    const whole = this.#tail + text;
    const open = more ? matcher.openFrom(whole) : whole.length;
    const ranges = matcher.ranges(whole);
    if (whole.length - open >= minBeginning) ranges.push([open, whole.length]);
    const result = replaceRanges(whole, mergeRanges(ranges), by, this.#tail.length);
    this.#tail = whole.slice(open);
    return result;
  }
}

/** Each range of a text replaced, from a place on. */
function replaceRanges(text: string, ranges: readonly TextRange[], by: string, start = 0): string {
  if (ranges.length === 0) return start === 0 ? text : text.slice(start);
  let result = "";
  let done = start;
  for (const [from, to] of ranges) {
    if (to <= start) continue;
    result += text.slice(done, Math.max(from, done)) + by;
    done = to;
  }
  return result + text.slice(done);
}
