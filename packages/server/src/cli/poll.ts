import { setTimeout as sleep } from "node:timers/promises";

/**
 * Asks until the answer is true: often in the beginning, every half second in the end. Throws the
 * signal's reason when it is aborted.
 */
export async function pollUntil(ask: () => Promise<boolean>, signal?: AbortSignal): Promise<void> {
  for (let wait = 2; !(await ask()); wait = Math.min(wait * 1.3, 500))
    await sleep(wait, undefined, { signal });
}
