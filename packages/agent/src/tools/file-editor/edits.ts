import { invalidParameter, UseError } from "./use-error.ts";

/** Characters of a result (agent-behaviour.md section 14). */
export const maxResult = 16_000;
const context = 4;
/** Places of a text that a message names. */
const maxPlaces = 50;

/** A new text, and its first and last changed line, from 1. */
export interface Edit {
  text: string;
  from: number;
  to: number;
}

/** Replaces the only occurrence of `oldText`, trimmed if necessary. Throws UseError. */
export function replaceOnce(path: string, text: string, oldText: string, newText: string): Edit {
  let wanted = oldText;
  let places = occurrences(text, wanted);
  if (places.length === 0 && oldText.trim() !== "") {
    wanted = oldText.trim();
    places = occurrences(text, wanted);
  }
  const quoted = `\`${oldText.length > 2_000 ? `${oldText.slice(0, 2_000)}...` : oldText}\``;
  if (places.length === 0) {
    throw new UseError(
      `Nothing was replaced: old_str ${quoted} does not stand verbatim in ${path}. View the file and copy the text exactly.`,
    );
  }
  if (places.length > 1) {
    const lines = [...new Set(places.slice(0, maxPlaces).map((place) => lineAt(text, place)))];
    const shown = `${lines.join(", ")}${places.length > maxPlaces ? ", ..." : ""}`;
    throw new UseError(
      `Nothing was replaced: old_str ${quoted} stands ${places.length} times in ${path}, in lines ${shown}. Add lines around it so that it is unique.`,
    );
  }
  const place = places[0]!;
  const from = lineAt(text, place);
  return {
    text: text.slice(0, place) + newText + text.slice(place + wanted.length),
    from,
    to: from + lineBreaks(newText),
  };
}

/** Inserts after line `after`; 0 is the start. Throws UseError for a missing line. */
export function insertLines(text: string, after: number, newText: string): Edit {
  const lines = textLines(text);
  if (after < 0 || after > lines.length) {
    const hint = `It must be between 0 and ${lines.length}, the number of lines of the file.`;
    throw invalidParameter("insert_line", after, hint);
  }
  const inserted = newText.endsWith("\n") ? newText : `${newText}\n`;
  const before = lines.slice(0, after).map((line) => `${line}\n`);
  const rest = lines.slice(after).join("\n") + (after < lines.length && text.endsWith("\n") ? "\n" : "");
  return { text: before.join("") + inserted + rest, from: after + 1, to: after + lineBreaks(inserted) };
}

/** The changed lines with context, numbered. */
export function snippet({ text, from, to }: Edit): string {
  const lines = textLines(text);
  const start = Math.max(1, from - context);
  return numbered(lines.slice(start - 1, to + context), start);
}

/** Lines as `%6d<TAB>text`. */
export function numbered(lines: readonly string[], first = 1): string {
  return lines.map((line, index) => `${String(first + index).padStart(6)}\t${line}\n`).join("");
}

/** Splits lines; a trailing line break begins none. */
export function textLines(text: string): string[] {
  if (text === "") return [];
  return (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
}

export function clip(text: string, hint: string): string {
  if (text.length <= maxResult) return text;
  const notice = `\n[The rest of ${text.length} characters is left out. ${hint}]`;
  return text.slice(0, maxResult - notice.length).replace(/[\ud800-\udbff]$/, "") + notice;
}

function occurrences(text: string, wanted: string): number[] {
  const places: number[] = [];
  for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + wanted.length)) places.push(at);
  return places;
}

function lineAt(text: string, index: number): number {
  return lineBreaks(text.slice(0, index)) + 1;
}

function lineBreaks(text: string): number {
  return text.split("\n").length - 1;
}
