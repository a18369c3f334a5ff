import { RequestError } from "./errors.ts";

/** First and longest time between two questions, ms. */
const firstPollMs = 2;
const maxPollMs = 500;

/** How long a server may be away while something is waited for, ms. */
const patienceMs = 10_000;

/** Resolves after a time, ms. Rejects with the signal's reason. */
export function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/**
 * Asks until there is an answer: often at first, then every half second. A server that restarts
 * meanwhile is waited for.
 */
export async function poll<T>(ask: () => Promise<T | undefined>, signal?: AbortSignal): Promise<T> {
  let awaySince: number | undefined;
  for (let wait = firstPollMs; ; wait = Math.min(wait * 1.3, maxPollMs)) {
    try {
      const answer = await ask();
      if (answer !== undefined) return answer;
      awaySince = undefined;
    } catch (error) {
      if (!(error instanceof RequestError && error.isTransient)) throw error;
      awaySince ??= Date.now();
      if (Date.now() - awaySince > patienceMs) throw error;
    }
    await sleep(wait, signal);
  }
}

/** The window of a browser, which tells when the network or the person is back; nothing in Node. */
export const browserWindow = globalThis as Partial<
  Pick<EventTarget, "addEventListener" | "removeEventListener">
>;
