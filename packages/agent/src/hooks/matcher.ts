import { testRegexes } from "@sandpiper/core/untrusted-regex";

/** Longest expression; time for all expressions of an event, ms, which begins anew as often as `mostTries` when one uses it up. */
const maxLength = 1_000;
const matchMs = 50;
const mostTries = 3;

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

/** The results of the expressions for which there was time; one that runs out of time matches. */
function evaluate(expressions: readonly string[], name: string): Map<string, boolean> {
  const results: (boolean | undefined)[] = [];
  for (let tries = 0; tries < mostTries && results.length < expressions.length; tries++) {
    const rest = expressions.slice(results.length);
    const tests = rest.map((one) => ({ source: `^(?:${one})$`, flags: "u", text: name }));
    results.push(...testRegexes(tests, matchMs));
    if (results.length < expressions.length) results.push(true);
  }
  return new Map(results.map((matches = false, index) => [expressions[index]!, matches]));
}
