/** Maximum computed delay. */
const maxDelayMs = 15 * 60_000;

/** Maximum delay that Retry-After may request. */
const maxRetryAfterMs = 6 * 3_600_000;

/**
 * Delay after the n-th failed attempt (from 1), ms: exponential from 1 s with jitter, at least
 * Retry-After.
 */
export function retryDelay(attempts: number, retryAfterMs = 0, random = Math.random): number {
  const full = Math.min(maxDelayMs, 1_000 * 2 ** Math.min(attempts - 1, 20));
  return Math.max(Math.round(full * (0.5 + random() / 2)), Math.min(retryAfterMs, maxRetryAfterMs));
}

/** Milliseconds of a Retry-After header (seconds or a date); undefined when absent or invalid. */
export function parseRetryAfter(text: string | null, now = Date.now()): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d{1,9}\s*$/.test(text)) return Number(text) * 1_000;
  const date = /GMT\s*$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
