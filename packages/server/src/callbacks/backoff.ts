/** Longest wait between two attempts that this server chooses by itself, ms. */
const maxDelayMs = 15 * 60_000;

/** Longest wait that an endpoint may ask for by Retry-After, ms. */
const maxRetryAfterMs = 6 * 3_600_000;

/**
 * How long to wait after the n-th failed attempt in a row (from 1), ms: from one second on twice as long each time, with jitter, and
 * never shorter than the endpoint asked.
 */
export function retryDelay(attempts: number, retryAfterMs = 0, random = Math.random): number {
  const full = Math.min(maxDelayMs, 1_000 * 2 ** Math.min(attempts - 1, 20));
  return Math.max(Math.round(full * (0.5 + random() / 2)), Math.min(retryAfterMs, maxRetryAfterMs));
}

/** Milliseconds of a Retry-After header, in seconds or as a date; undefined where it is absent or unreadable. */
export function parseRetryAfter(text: string | null, now = Date.now()): number | undefined {
  if (text === null) return undefined;
  if (/^\s*\d{1,9}\s*$/.test(text)) return Number(text) * 1_000;
  const date = /GMT\s*$/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}
