import stringWidth from "fast-string-width";
import { inert } from "./inert.ts";

/** Fits one line into `width` columns, as one or more lines. */
export type Shape = (line: string, width: number) => string[];

export interface Fit {
  /** Maximum lines; half of them are from the end of the text. */
  limit: number;
  /** Columns of a line. */
  width: number;
  /** Columns of the first line that are taken already. */
  taken?: number;
  shape: Shape;
}

/** Makes an untrusted text inert and fits it into lines; counts the omitted lines. */
export function fitLines(text: string, { limit, width, taken = 0, shape }: Fit): string[] {
  // The placeholder keeps the first line short; it contains no space, so it stays in one piece.
  const all = `${"_".repeat(taken)}${inert(text)}`
    .trimEnd()
    .split("\n")
    .flatMap((line) => shape(line.replaceAll("\t", "    "), width));
  all[0] = all[0]!.slice(taken);
  if (all.length <= limit) return all;
  const before = Math.ceil((limit - 1) / 2);
  const after = Math.floor((limit - 1) / 2);
  return [
    ...all.slice(0, before),
    `… ${all.length - before - after} more lines …`,
    ...all.slice(all.length - after),
  ];
}

/** Cuts a line of output or code at the width. */
export function cut(line: string, width: number): string[] {
  if (isNarrow(line) && line.length <= width) return [line];
  const [first = "", second] = firstPieces(line, width);
  if (second === undefined) return [line];
  return [`${fitsInto(first, width - 1)}…`];
}

/** Wraps prose at spaces and splits longer words. */
export function wrap(line: string, width: number): string[] {
  return joinWords(
    line.split(" ").flatMap((part) => pieces(part, width)),
    width,
  );
}

/** Wraps prose at spaces; a longer word, such as a path to copy, stays whole. */
export function wrapWords(line: string, width: number): string[] {
  return joinWords(line.split(" "), width);
}

function joinWords(words: readonly string[], width: number): string[] {
  const done: string[] = [];
  let current = "";
  let taken = 0;
  for (const word of words) {
    const size = columnsOf(word);
    if (current !== "" && taken + 1 + size > width) {
      done.push(current);
      current = word;
      taken = size;
    } else {
      taken += current === "" ? size : size + 1;
      current = current === "" ? word : `${current} ${word}`;
    }
  }
  return [...done, current];
}

/** Splits a line at the width; no character is lost, and one of two columns is never halved. */
export function pieces(line: string, width: number): string[] {
  return isNarrow(line) && line.length <= width ? [line] : [...splitAt(line, width)];
}

/** Columns that a line takes on a terminal. */
export function columnsOf(line: string): number {
  return isNarrow(line) ? line.length : stringWidth(line);
}

/** Fills a line with spaces up to the width. */
export function padTo(line: string, width: number): string {
  return line + " ".repeat(Math.max(width - columnsOf(line), 0));
}

/** Every character takes one column. */
function isNarrow(line: string): boolean {
  return /^[\x20-\x7e]*$/.test(line);
}

function firstPieces(line: string, width: number): string[] {
  const found: string[] = [];
  for (const piece of splitAt(line, width)) if (found.push(piece) === 2) break;
  return found;
}

function fitsInto(line: string, width: number): string {
  return splitAt(line, Math.max(width, 1)).next().value ?? "";
}

function* splitAt(line: string, width: number): Generator<string> {
  let begin = 0;
  let at = 0;
  let taken = 0;
  for (const character of line) {
    const size = columnsOf(character);
    if (taken + size > width && at > begin) {
      yield line.slice(begin, at);
      begin = at;
      taken = 0;
    }
    taken += size;
    at += character.length;
  }
  if (at > begin || begin === 0) yield line.slice(begin);
}
