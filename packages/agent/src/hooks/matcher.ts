import { createContext, Script } from "node:vm";

/** Longest expression, and time for those of one event on a name, ms, as often as one of them uses it up: they are a stranger's. */
const maxLength = 1_000;
const matchMs = 50;
const mostTries = 3;

const script = new Script(`while (results.length < expressions.length) {
  const index = results.push(true) - 1;
  try {
    results[index] = new RegExp("^(?:" + expressions[index] + ")$", "u").test(name);
  } catch {
    results[index] = false;
  }
}`);

/**
 * Which of the matchers of an event are for a tool: `*` and nothing are for all, `/…/` and what holds signs of an expression match the whole name, the rest is
 * the name. One that is no expression is for none. One that takes too long, or for which others have left no time, is for all: it may be a guard.
 */
export function matchTool(matchers: readonly string[], toolName: string): boolean[] {
  const expressions = matchers.map((matcher) => expressionOf(matcher.trim()));
  const results = evaluate([...new Set(expressions.filter((one) => one !== undefined))], toolName);
  return matchers.map((matcher, index) => {
    const wanted = matcher.trim();
    if (wanted === "" || wanted === "*" || wanted === toolName) return true;
    const expression = expressions[index];
    return expression !== undefined && (results.get(expression) ?? true);
  });
}

/** Whether a matcher can be for a tool at all. */
export function isMatcher(matcher: string): boolean {
  const wanted = matcher.trim();
  if (wanted.length > maxLength) return false;
  try {
    new RegExp(`^(?:${expressionOf(wanted) ?? ""})$`, "u");
    return true;
  } catch {
    return false;
  }
}

/** Undefined for what is none, and for one that is too long. */
function expressionOf(wanted: string): string | undefined {
  if (wanted === "*" || wanted.length > maxLength) return undefined;
  const [, delimited] = /^\/([\s\S]*)\/$/.exec(wanted) ?? [];
  return delimited ?? (/[.*+?^${}()|[\]\\]/.test(wanted) ? wanted : undefined);
}

/** Without those for which there was no time. */
function evaluate(expressions: readonly string[], name: string): Map<string, boolean> {
  const results: boolean[] = [];
  for (let tries = 0; tries < mostTries && results.length < expressions.length; tries++) {
    try {
      script.runInContext(createContext({ expressions, name, results }), { timeout: matchMs });
    } catch {
      // Those behind the one that took so long are tried next.
    }
  }
  return new Map(results.map((matches, index) => [expressions[index]!, matches]));
}
