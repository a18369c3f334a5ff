/**
 * Makes untrusted text safe and visible on a terminal. Newlines, tabs and visible characters stay.
 * Everything that a person cannot see, or that moves or joins other characters, becomes caret
 * notation (`^[`) or its code point (`<U+202E>`): escape sequences, C1 controls, carriage returns,
 * bidirectional controls, zero-width and tag characters, spaces other than the usual one, lone
 * surrogates, and combining marks beyond what a letter carries. Takes linear time.
 */
export function inert(text: string): string {
  return text.replace(unseen, show);
}

/** Like `inert` for a text that must stay on one line: newlines and tabs are shown, too. */
export function inertLine(text: string): string {
  return inert(text).replace(/[\n\t]/g, show);
}

/** JSON of a value: characters that a person cannot see are escapes, which parsers undo. */
export function inertJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(unseen, (character) =>
    Array.from({ length: character.length }, (_, at) => escapeUnit(character.charCodeAt(at))).join(""),
  );
}

/**
 * Emoji keep their joiners and their variation selector. A letter or digit keeps four combining
 * marks, which is enough for every script in use.
 */
const unseen = new RegExp(
  [
    String.raw`[[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800]--[ \n\t\u200D\uFE0F]]`,
    String.raw`(?<!\p{Extended_Pictographic}\p{Emoji_Modifier}?\uFE0F?)\u200D`,
    String.raw`\u200D(?!\p{Extended_Pictographic})`,
    String.raw`(?<!\p{Extended_Pictographic})\uFE0F`,
    String.raw`(?<![\p{L}\p{N}]\p{M}{0,3})[\p{M}--\uFE0F]`,
  ].join("|"),
  "gv",
);

function show(character: string): string {
  const code = character.codePointAt(0)!;
  if (code < 0x20 || code === 0x7f) return `^${String.fromCharCode(code ^ 0x40)}`;
  return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
}

function escapeUnit(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
