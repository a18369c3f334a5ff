import { setTimeout as sleep } from "node:timers/promises";

/**
 * Polls until the answer is true, from every 2 ms up to every 500 ms. Throws the signal's reason.
 */
export async function pollUntil(ask: () => Promise<boolean>, signal?: AbortSignal): Promise<void> {
  for (let wait = 2; !(await ask()); wait = Math.min(wait * 1.3, 500))
    await sleep(wait, undefined, { signal });
}
