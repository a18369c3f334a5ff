import { type ParsedScript, parse } from "unbash";

/** Longest shell script that is parsed, in characters: time and memory are linear in it. */
const maxScriptChars = 150_000;

/** Most heredocs that begin on one line: the parser's time is quadratic in them. */
const maxHeredocs = 100;

/**
 * The syntax tree of a shell script; partial, with `errors`, when its syntax is wrong. Undefined
 * when the script is too long or too deeply nested, or begins too many heredocs on one line.
 */
export function parseShell(script: string): ParsedScript | undefined {
  if (script.length > maxScriptChars || mostHeredocs(script) > maxHeredocs) return undefined;
  return withinStack(() => parse(script));
}

/** The highest count of `<<` in a line; a backslash continues a line. */
function mostHeredocs(script: string): number {
  let most = 0;
  let count = 0;
  for (const [token] of script.matchAll(/<<|\\\n|\n/g)) {
    if (token === "\n") count = 0;
    else if (token === "<<") most = Math.max(most, ++count);
  }
  return most;
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
