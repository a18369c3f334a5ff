const dayMs = 24 * 60 * 60 * 1000;

/** Maximum lifetime of a key. */
const maxDays = 36_500;

/**
 * Parses the expiry of a key to ms since the epoch: `30d` is that many days from `now`,
 * `2027-01-31` the end of that day (UTC). Undefined when it is invalid or in the past.
 */
export function parseExpiry(text: string, now: number): number | undefined {
  const days = /^([1-9]\d{0,5})d$/.exec(text);
  if (days) return Number(days[1]) <= maxDays ? now + Number(days[1]) * dayMs : undefined;
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return undefined;
  const day = new Date(`${text}T00:00:00Z`);
  if (Number.isNaN(day.getTime()) || !day.toISOString().startsWith(text)) return undefined;
  const end = day.getTime() + dayMs;
  return end > now ? end : undefined;
}
