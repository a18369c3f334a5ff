import { type Hunk, PatchError } from "./parse.ts";

/** Line comparisons per file: some for any, and some for each line of the file and the patch. */
const comparisonsAlways = 20_000;
const comparisonsPerLine = 64;

/** Costs of inexact matches: trailing spaces, surrounding spaces, a wrong end of file. */
const ways: readonly { fuzz: number; normal: (line: string) => string }[] = [
  { fuzz: 0, normal: (line) => line },
  { fuzz: 1, normal: (line) => line.trimEnd() },
  { fuzz: 100, normal: (line) => line.trim() },
];
const endFuzz = 10_000;

/** Applies hunks in order and returns the fuzz (0: exact). Throws PatchError. */
export function applyHunks(
  path: string,
  text: string,
  hunks: readonly Hunk[],
): { text: string; fuzz: number } {
  const ends = text === "" || text.endsWith("\n");
  const lines = text === "" ? [] : (ends ? text.slice(0, -1) : text).split("\n");
  const size = hunks.reduce((sum, hunk) => sum + hunk.lines.length + hunk.anchors.length, lines.length);
  const finder = new Finder(path, lines, comparisonsAlways + comparisonsPerLine * size);
  const result: string[] = [];
  let fuzz = 0;
  let done = 0;
  for (const [index, hunk] of hunks.entries()) {
    const place = finder.place(hunk, done, index + 1);
    fuzz += place.fuzz;
    for (; done < place.at; done++) result.push(lines[done]!);
    for (const { kind, text: line } of hunk.lines) {
      if (kind === "add") result.push(line);
      else if (kind === "context") result.push(lines[done++]!);
      else done++;
    }
  }
  for (; done < lines.length; done++) result.push(lines[done]!);
  return { text: result.length === 0 ? "" : `${result.join("\n")}${ends ? "\n" : ""}`, fuzz };
}

interface NumberedLines {
  numbers: number[];
  numberOf: ReadonlyMap<string, number>;
}

function numberLines(lines: readonly string[], normal: (line: string) => string): NumberedLines {
  const numberOf = new Map<string, number>();
  const numbers = lines.map((line) => {
    const plain = normal(line);
    const number = numberOf.get(plain) ?? numberOf.size;
    numberOf.set(plain, number);
    return number;
  });
  return { numbers, numberOf };
}

class Finder {
  readonly #path: string;
  readonly #lines: readonly string[];
  /** Lines by number, equal ones by the same, for each of `ways`. */
  readonly #numbered: NumberedLines[] = [];
  #comparisonsLeft: number;

  constructor(path: string, lines: readonly string[], comparisons: number) {
    this.#path = path;
    this.#lines = lines;
    this.#comparisonsLeft = comparisons;
  }

  /** Finds a hunk's position after a line. Throws PatchError. */
  place({ anchors, lines, atEnd }: Hunk, from: number, number: number): { at: number; fuzz: number } {
    const old = lines.filter(({ kind }) => kind !== "add").map(({ text }) => text);
    let start = from;
    let fuzz = 0;
    for (const anchor of anchors) {
      const found = this.#find([anchor], start);
      if (found) start = found.at + 1;
      else if (old.length === 0) throw this.#missing(number, [anchor], start);
      if (!found) fuzz += 1;
    }
    // Additions alone go after their anchor, or to the end.
    if (old.length === 0) return { at: anchors.length > 0 && !atEnd ? start : this.#lines.length, fuzz };
    if (atEnd) {
      const found = this.#find(old, Math.max(start, this.#lines.length - old.length));
      if (found) return { at: found.at, fuzz: fuzz + found.fuzz };
      fuzz += endFuzz;
    }
    const found = this.#find(old, start);
    if (!found) throw this.#missing(number, old, start);
    return { at: found.at, fuzz: fuzz + found.fuzz };
  }

  #find(wanted: readonly string[], from: number): { at: number; fuzz: number } | undefined {
    for (const [way, { fuzz, normal }] of ways.entries()) {
      const { numbers, numberOf } = this.#numbered[way] ?? numberLines(this.#lines, normal);
      this.#numbered[way] = { numbers, numberOf };
      const wantedNumbers = wanted.map((line) => numberOf.get(normal(line)));
      if (wantedNumbers.includes(undefined)) continue;
      for (let at = from; at + wanted.length <= numbers.length; at++) {
        let same = 0;
        while (same < wanted.length && numbers[at + same] === wantedNumbers[same]) same++;
        if (same === wanted.length) return { at, fuzz };
        this.#comparisonsLeft -= same + 1;
        if (this.#comparisonsLeft < 0)
          throw new PatchError(
            `${this.#path} has too many lines that are alike: use another way to change it.`,
          );
      }
    }
    return undefined;
  }

  #missing(number: number, wanted: readonly string[], from: number): PatchError {
    const shown = wanted.slice(0, 20).map((line) => line.slice(0, 300));
    const rest = wanted.length > shown.length ? `\n(and ${wanted.length - shown.length} more)` : "";
    const after = from > 0 ? ` after line ${from}` : "";
    return new PatchError(
      `Change ${number} of ${this.#path}: these lines do not stand together in the file${after}. Read it and give them as they are.\n${shown.join("\n")}${rest}`,
    );
  }
}
