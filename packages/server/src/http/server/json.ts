import { InvalidInput } from "./invalid-input.ts";

/** Maximum nesting of a JSON body, so that recursive code behind the routes is safe. */
export const maxJsonDepth = 64;

/**
 * Maximum values of a JSON body: parsing blocks the event loop for each value, hardly for long
 * texts.
 */
export const maxJsonValues = 10_000;

/**
 * Parses JSON from a client. Throws InvalidInput when it is malformed, exceeds `maxJsonDepth` or
 * `maxJsonValues`, or contains a NUL character (invalid in file names, arguments and PostgreSQL
 * texts) or the key `__proto__`. The messages never quote the text.
 */
export function parseJson(text: string): unknown {
  if (hasTooManyValues(text)) throw invalidJson(0, `more than ${maxJsonValues} values`);
  let value: unknown;
  try {
    value = JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
  } catch (error) {
    const position = /position (\d+)/.exec((error as Error).message)?.[1];
    throw invalidJson(position === undefined ? text.length : Number(position), "malformed JSON");
  }
  checkJson(value);
  return value;
}

const quote = 0x22;
const backslash = 0x5c;
/** A comma or an opening bracket begins a value. */
const valueStarts: ReadonlySet<number> = new Set([0x2c, 0x5b, 0x7b]);

/** Whether a text has too many values; counts beginnings of values outside of strings. */
export function hasTooManyValues(text: string): boolean {
  if (text.length <= maxJsonValues) return false;
  let count = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = findStringEnd(text, at);
    else if (valueStarts.has(code) && ++count > maxJsonValues) return true;
  }
  return false;
}

/**
 * The index of the quote that closes the string opened at `start`; the text's length if none does.
 */
function findStringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let before = end - 1;
    while (text.charCodeAt(before) === backslash) before--;
    if ((end - before) % 2 === 1) return end;
  }
  return text.length;
}

function checkJson(root: unknown): void {
  let level: unknown[] = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > maxJsonDepth) throw invalidJson(0, `nested deeper than ${maxJsonDepth} levels`);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value === "string") checkText(value);
      else if (Array.isArray(value)) for (const item of value) next.push(item);
      else if (value !== null && typeof value === "object") {
        for (const key of Object.keys(value)) {
          if (key === "__proto__") throw invalidJson(0, "the key __proto__ is not allowed");
          checkText(key);
          next.push((value as Record<string, unknown>)[key]);
        }
      }
    }
    level = next;
  }
}

function checkText(text: string): void {
  if (text.includes("\0")) throw invalidJson(0, "text holds a NUL character");
}

function invalidJson(position: number, reason: string): InvalidInput {
  return new InvalidInput([
    { loc: ["body", position], msg: `JSON decode error: ${reason}`, type: "json_invalid" },
  ]);
}
