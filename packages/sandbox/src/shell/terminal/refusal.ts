import { notes } from "./observation.ts";

/** Why a command is not run, else undefined (agent-behaviour.md section 13, is_error results). */
export function findRefusal(command: string): string | undefined {
  if (command.includes("\0")) return notes.nul;
  return isLiteral(command) ? notes.literal : undefined;
}

/** True for a Python or JSON value or text. `[ a = b ]` and `{ a; }` are shell. */
function isLiteral(command: string): boolean {
  const text = command.trim();
  if (/^(?:[rbfu]{0,2})("""|''')[\s\S]*\1$/i.test(text)) return true;
  if (!/^(\{[\s\S]*\}|\[[\s\S]*\])$/.test(text) || text.length > 1_000_000) return false;
  const json = text
    .replace(/'((?:[^'\\\n]|\\.)*)'/g, (_, inner: string) => JSON.stringify(inner))
    .replace(/\bTrue\b/g, "true")
    .replace(/\bFalse\b/g, "false")
    .replace(/\bNone\b/g, "null")
    .replace(/,\s*([\]}])/g, "$1");
  return [text, json].some((candidate) => {
    try {
      return typeof JSON.parse(candidate) === "object";
    } catch {
      return false;
    }
  });
}
