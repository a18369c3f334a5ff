import { type ParsedScript, parse } from "unbash";

/** Longest shell script that is parsed, in characters: time and memory are linear in it. */
const maxScriptChars = 300_000;

/**
 * The syntax tree of a shell script; partial, with `errors`, when its syntax is wrong. Undefined
 * when the script is too long or too deeply nested.
 */
export function parseShell(script: string): ParsedScript | undefined {
  if (script.length > maxScriptChars) return undefined;
  return withinStack(() => parse(script));
}

/**
 * What `read` returns; undefined when a syntax tree is too deep for the stack: the parser and its
 * lazy nodes throw a RangeError.
 */
export function withinStack<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}
