import type { SecretMatcher } from "./secret-matcher.ts";
import { mergeRanges, replaceRanges, type TextRange } from "./text-ranges.ts";

/** Takes secrets out of a whole text. */
export function hideSecrets(matcher: SecretMatcher, text: string, by: string): string {
  return replaceRanges(text, matcher.ranges(text), by);
}

/**
 * Masks secrets in a text that arrives in chunks, wherever it is split. The beginning of a secret
 * is held back, or hidden when nothing may be held back. One or two characters are shown at once
 * unless the stream is `patient`; the secret's continuation is hidden.
 */
export class SecretStream {
  readonly #by: string;
  readonly #patient: boolean;
  #matcher: SecretMatcher;
  /** The unmasked end of the text so far that may begin a secret. */
  #tail = "";
  /** How much of it was shown or hidden already, and how much of it is known to be a secret. */
  #sent = 0;
  #known = 0;

  constructor(matcher: SecretMatcher, by: string, { patient = false } = {}) {
    this.#matcher = matcher;
    this.#by = by;
    this.#patient = patient;
  }

  /** Returns the text that can be shown now. */
  write(piece: string): string {
    return this.#next(piece, { more: true, hold: true });
  }

  /** Returns the rest. */
  end(): string {
    return this.#next("", { more: false, hold: true });
  }

  /**
   * Masks one complete output of several consecutive ones. `more`: the next output continues this
   * one.
   */
  output(matcher: SecretMatcher, text: string, more: boolean): string {
    this.#matcher = matcher;
    return this.#next(text, { more, hold: false });
  }

  #next(piece: string, { more, hold }: { more: boolean; hold: boolean }): string {
    const text = this.#tail + piece;
    if (text === "") return "";
    const ranges = mergeRanges([
      ...(this.#known > 0 ? [[0, this.#known] as TextRange] : []),
      ...this.#matcher.ranges(text),
    ]);
    const cut = more ? this.#matcher.openFrom(text, !this.#patient) : text.length;
    // Secrets that were known earlier are already masked.
    const start = this.#known > this.#sent ? ranges[0]![1] : this.#sent;
    let result = replaceRanges(text, upTo(ranges, cut), this.#by, Math.min(start, cut), cut);
    // A range is masked in the result, or was before.
    const isMasked = (from: number) => from < cut || (from === 0 && this.#known > 0);
    const across = ranges.find(([from, to]) => isMasked(from) && to > cut);
    if (!hold && cut < text.length && !across) result += this.#by;
    const open = more ? Math.min(cut, this.#matcher.openFrom(text)) : text.length;
    this.#tail = text.slice(open);
    this.#sent = (hold ? cut : text.length) - open;
    this.#known = across && hold ? across[1] - open : 0;
    return result;
  }
}

function upTo(ranges: readonly TextRange[], end: number): TextRange[] {
  return ranges.filter(([from]) => from < end).map(([from, to]): TextRange => [from, Math.min(to, end)]);
}
