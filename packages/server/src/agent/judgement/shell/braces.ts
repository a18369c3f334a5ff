import type { Word } from "./lexer.ts";

/** Most words that braces make of one. */
const maxBraces = 32;

/** `{rm,-rf,/}` is three words, and so is `/{bin,etc,home}`. */
export function expandBraces(word: Word): Word[] {
  if (word.quoted || word.text.length > 3_000) return [word];
  let texts = [word.text];
  for (let round = 0; round < 4; round++) {
    const next = texts.flatMap((text) => {
      const found = /^(|.*?[^$])\{([^{}]{0,1000},[^{}]{0,1000})\}(.*)$/s.exec(text);
      return found ? found[2]!.split(",").map((part) => found[1]! + part + found[3]!) : [text];
    });
    if (next.length === texts.length || next.length > maxBraces) break;
    texts = next;
  }
  return texts.length === 1 ? [word] : texts.map((text) => ({ ...word, text }));
}
