/**
 * Waits that have not ended, and the last answer of a server: what a failed test reports
 * (check-events.ts).
 */
const waits = new Set<{ condition: unknown }>();
let lastAnswer: string | undefined;

/** Asks again every few milliseconds until there is an answer; the test's own time-out ends it. */
export function until<T>(ask: () => Promise<T | undefined> | T | undefined, everyMs = 15): Promise<T> {
  return reportWait(ask, async () => {
    for (;;) {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    }
  });
}

/** Waits for a condition. A test that fails during the wait reports the condition's source text. */
export async function reportWait<T>(condition: unknown, wait: () => Promise<T>): Promise<T> {
  const entry = { condition };
  waits.add(entry);
  try {
    return await wait();
  } finally {
    waits.delete(entry);
  }
}

/** Keeps what a server answered, for the report of a wait that did not end. */
export function noteAnswer(request: string, status: number, text: string): void {
  lastAnswer = `${request}: ${status} ${text.length > 2_000 ? `…${text.slice(-2_000)}` : text}`;
}

/** Describes the waits that have not ended, with the last answer. Forgets both. */
export function describeWaits(): string {
  const pending = [...waits].map(({ condition }) => `\nIt still waits for: ${condition}`);
  if (pending.length > 0 && lastAnswer !== undefined) pending.push(`\nThe last answer: ${lastAnswer}`);
  waits.clear();
  lastAnswer = undefined;
  return pending.join("");
}
