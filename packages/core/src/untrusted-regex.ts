import { createContext, Script } from "node:vm";

export interface RegexTest {
  source: string;
  flags?: string;
  text: string;
}

const script = new Script(`for (const { source, flags, text } of tests) {
  let matches;
  try {
    matches = new RegExp(source, flags).test(text);
  } catch {}
  results.push(matches);
}`);

/**
 * Tests texts by regular expressions from clients or projects, in at most `timeoutMs` together.
 * Returns the results in order, undefined for an invalid expression; fewer results than tests when
 * a test ran out of time.
 */
export function testRegexes(tests: readonly RegexTest[], timeoutMs: number): (boolean | undefined)[] {
  const results: (boolean | undefined)[] = [];
  try {
    script.runInContext(createContext({ tests, results }), { timeout: timeoutMs });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
  }
  return results;
}
