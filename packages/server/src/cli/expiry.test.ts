import { expect, test } from "vitest";
import { parseExpiry } from "./expiry.ts";

const now = Date.parse("2026-11-21T17:00:00Z");

test("days count from now, and a date includes its whole day", () => {
  expect(parseExpiry("1d", now)).toBe(Date.parse("2026-11-22T17:00:00Z"));
  expect(parseExpiry("36500d", now)).toBeGreaterThan(now);
  expect(parseExpiry("2027-01-31", now)).toBe(Date.parse("2027-02-01T00:00:00Z"));
  expect(parseExpiry("2026-11-21", now)).toBe(Date.parse("2026-11-22T00:00:00Z"));
});

test("past days, nonexistent dates and other texts are refused", () => {
  const wrong = [
    "",
    "0d",
    "-1d",
    "1.5d",
    "36501d",
    "1h",
    "30",
    "2026-11-20",
    "2027-02-30",
    "2027-13-01",
    "27-01-31",
    "tomorrow",
  ];
  for (const text of wrong) expect([text, parseExpiry(text, now)]).toEqual([text, undefined]);
});
