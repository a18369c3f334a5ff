/**
 * Formats milliseconds since the epoch like the app server: ISO-8601 in UTC with `Z` (app-server.md
 * section 0).
 */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Formats microseconds since the epoch like events: naive ISO-8601 in UTC with six digits and no
 * zone (events.md section 1). The texts sort like their times.
 */
export function eventTime(micros: number): string {
  const ms = Math.floor(micros / 1000);
  const rest = String(micros - ms * 1000).padStart(3, "0");
  return new Date(ms).toISOString().slice(0, -1) + rest;
}

/**
 * Converts a client's timestamp to the form of event timestamps: a text without a zone is UTC.
 * Undefined when the text is not ISO-8601. Fractions below a microsecond are cut.
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
