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

/** Tests that waited for the processor, and did not use it, go on this often. */
const maxWaits = 20;

/**
 * Tests texts by regular expressions from clients or projects, in at most `maxMs` of processor time
 * together, during which nothing else runs. Returns the results in order, undefined for an invalid
 * expression; fewer results than tests when a test ran out of time.
 */
export function testRegexes(tests: readonly RegexTest[], maxMs: number): (boolean | undefined)[] {
  const results: (boolean | undefined)[] = [];
  const before = process.threadCpuUsage();
  for (let waits = 0; waits < maxWaits; waits++) {
    try {
      const rest = tests.slice(results.length);
      script.runInContext(createContext({ tests: rest, results }), { timeout: maxMs });
      break;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ERR_SCRIPT_EXECUTION_TIMEOUT") throw error;
      const { user, system } = process.threadCpuUsage(before);
      if ((user + system) / 1_000 > maxMs * 0.7) break;
    }
  }
  return results;
}
