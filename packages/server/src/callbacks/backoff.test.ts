import { expect, test } from "vitest";
import { parseRetryAfter, retryDelay } from "./backoff.ts";

test("delays grow from a second to a quarter of an hour, vary, and are never shorter than requested", () => {
  expect(retryDelay(1, 0, () => 1)).toBe(1_000);
  expect(retryDelay(1, 0, () => 0)).toBe(500);
  expect(retryDelay(5, 0, () => 1)).toBe(16_000);
  expect(retryDelay(1_000, 0, () => 1)).toBe(900_000);
  expect(retryDelay(1, 60_000)).toBe(60_000);
  expect(retryDelay(1, 365 * 86_400_000)).toBe(6 * 3_600_000);
});

test.each([
  ["120", 120_000],
  [" 5 ", 5_000],
  ["Thu, 01 Jan 1970 00:00:10 GMT", 10_000],
  ["Wed, 31 Dec 1969 00:00:00 GMT", 0],
  ["soon", undefined],
  ["-5", undefined],
  ["1e9999", undefined],
  [null, undefined],
])("Retry-After %j means %j ms", (text, ms) => {
  expect(parseRetryAfter(text, 0)).toBe(ms);
});
