import { testRegexes } from "@sandpiper/core/untrusted-regex";

/** Characters of a pattern; ms for all patterns of an event, restarted up to `maxTries` times. */
const maxLength = 1_000;
const matchMs = 8;
const maxTries = 3;

/** Patterns that ran out of time, so that each does so once; the first ones are forgotten. */
const slow = new Set<string>();
const maxSlow = 1_000;

/**
 * Which matchers fit a tool: `*` and empty match all; `/…/` and regex syntax match the whole name.
 * An invalid pattern matches nothing; a timed-out one matches, because it may be a guard.
 */
export function matchTool(matchers: readonly string[], toolName: string): boolean[] {
  const expressions = matchers.map((matcher) => toPattern(matcher.trim()));
  const results = evaluate([...new Set(expressions.filter((one) => one !== undefined))], toolName);
  return matchers.map((matcher, index) => {
    const wanted = matcher.trim();
    if (wanted === "" || wanted === "*" || wanted === toolName) return true;
    const expression = expressions[index];
    return expression !== undefined && (results.get(expression) ?? true);
  });
}

/** Whether a matcher can match any tool. */
export function isMatcher(matcher: string): boolean {
  const wanted = matcher.trim();
  if (wanted.length > maxLength) return false;
  try {
    new RegExp(`^(?:${toPattern(wanted) ?? ""})$`, "u");
    return true;
  } catch {
    return false;
  }
}

/** Undefined when it is too long or not a pattern. */
function toPattern(wanted: string): string | undefined {
  if (wanted === "*" || wanted.length > maxLength) return undefined;
  const [, delimited] = /^\/([\s\S]*)\/$/.exec(wanted) ?? [];
  return delimited ?? (/[.*+?^${}()|[\]\\]/.test(wanted) ? wanted : undefined);
}

/** Pattern results; a pattern that runs out of time matches. */
function evaluate(all: readonly string[], name: string): Map<string, boolean> {
  const expressions = all.filter((one) => !slow.has(one));
  const results: (boolean | undefined)[] = [];
  for (let tries = 0; tries < maxTries && results.length < expressions.length; tries++) {
    const rest = expressions.slice(results.length);
    const tests = rest.map((one) => ({ source: `^(?:${one})$`, flags: "u", text: name }));
    results.push(...testRegexes(tests, matchMs));
    if (results.length === expressions.length) break;
    slow.add(expressions[results.length]!);
    if (slow.size > maxSlow) slow.delete(slow.values().next().value!);
    results.push(true);
  }
  return new Map(results.map((matches = false, index) => [expressions[index]!, matches]));
}
