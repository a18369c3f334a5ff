/** Milliseconds since the epoch as the app server writes them: ISO-8601 in UTC with `Z` (app-server.md section 0). */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Microseconds since the epoch as events carry them: naive ISO-8601 with six digits and no zone, in UTC (events.md section 1).
 * Two such texts compare as their times do.
 */
export function eventTime(micros: number): string {
  const ms = Math.floor(micros / 1000);
  const rest = String(micros - ms * 1000).padStart(3, "0");
  return new Date(ms).toISOString().slice(0, -1) + rest;
}

/**
 * Reads a client's timestamp into the form of event timestamps: a naive text is taken as UTC, one with a zone is converted.
 * Gives undefined when the text is no ISO-8601 time. Fractions finer than a microsecond are cut.
 */
export function parseEventTime(text: string): string | undefined {
  const match =
    /^(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:[.,](\d{1,9}))?)?\s*(Z|[+-]\d{2}:?\d{2})?$/i.exec(
      text.trim(),
    );
  if (!match) return undefined;
  const [, day, clock = "00:00:00", fraction = "", zone = "Z"] = match;
  const time = clock.length === 5 ? `${clock}:00` : clock;
  const offset = /^z$/i.test(zone) ? "Z" : zone.includes(":") ? zone : `${zone.slice(0, 3)}:${zone.slice(3)}`;
  const seconds = Date.parse(`${day}T${time}${offset}`);
  if (Number.isNaN(seconds)) return undefined;
  return eventTime(seconds * 1000 + Number(fraction.padEnd(6, "0").slice(0, 6)));
}
