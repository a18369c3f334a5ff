import { createContext, Script } from "node:vm";

/** Longest expression, and time for one on a name, ms: it is a stranger's. */
const maxLength = 1_000;
const matchMs = 50;

/**
 * Whether a matcher of hooks is for a tool: `*` and nothing are for all, `/…/` and what holds signs of an expression match the whole name, the rest is
 * the name. One that is no expression, or takes too long, is for none.
 */
export function matchesTool(matcher: string, toolName: string): boolean {
  const wanted = matcher.trim();
  if (wanted === "" || wanted === "*" || wanted === toolName) return true;
  const [, delimited] = /^\/([\s\S]*)\/$/.exec(wanted) ?? [];
  if (delimited === undefined && !/[.*+?^${}()|[\]\\]/.test(wanted)) return false;
  if (wanted.length > maxLength) return false;
  return matchesWhole(delimited ?? wanted, toolName);
}

function matchesWhole(expression: string, name: string): boolean {
  try {
    const script = new Script("new RegExp(`^(?:${expression})$`, 'u').test(name)");
    return script.runInContext(createContext({ expression, name }), { timeout: matchMs }) === true;
  } catch {
    return false;
  }
}
