import { expect, test } from "vitest";
import { eventTime, parseEventTime } from "./time.ts";

test("event times are naive, in UTC, with microseconds", () => {
  expect(eventTime(1755684000123456)).toBe("2025-08-20T10:00:00.123456");
});

test.each([
  ["2026-08-20T10:00:00.123456", "2026-08-20T10:00:00.123456"],
  ["2026-08-20T10:00:00.123456+02:00", "2026-08-20T08:00:00.123456"],
  ["2026-08-20T10:00:00Z", "2026-08-20T10:00:00.000000"],
  ["2026-08-20 10:00", "2026-08-20T10:00:00.000000"],
  ["2026-08-20", "2026-08-20T00:00:00.000000"],
  ["2026-08-20T10:00:00.1", "2026-08-20T10:00:00.100000"],
])("reads %s", (text, expected) => {
  expect(parseEventTime(text)).toBe(expected);
});

test.each(["", "yesterday", "2026-13-40T10:00:00", "2026-08-20T25:00:00", "1755684000"])(
  "refuses %j",
  (text) => {
    expect(parseEventTime(text)).toBeUndefined();
  },
);
