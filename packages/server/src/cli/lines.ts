import { inert } from "./inert.ts";

/** Fits one line into `width` characters, as one or more lines. */
export type Shape = (line: string, width: number) => string[];

export interface Fit {
  /** Maximum lines; half of them are from the end of the text. */
  limit: number;
  /** Characters of a line. */
  width: number;
  /** Characters of the first line that are taken already. */
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
  const characters = Array.from(line);
  return [characters.length > width ? `${characters.slice(0, width - 1).join("")}…` : line];
}

/** Wraps prose at spaces and splits longer words. */
export function wrap(line: string, width: number): string[] {
  const done: string[] = [];
  let current = "";
  for (const word of line.split(" ").flatMap((part) => pieces(part, width))) {
    if (current !== "" && current.length + 1 + word.length > width) {
      done.push(current);
      current = word;
    } else current = current === "" ? word : `${current} ${word}`;
  }
  return [...done, current];
}

function pieces(word: string, width: number): string[] {
  const characters = Array.from(word);
  if (characters.length <= width) return [word];
  return Array.from({ length: Math.ceil(characters.length / width) }, (_, at) =>
    characters.slice(at * width, (at + 1) * width).join(""),
  );
}
