import { expect, test } from "vitest";
import { defaultRetryDelaysMs, nextDelayMs } from "./retry.ts";

const minute = 60_000;

test("an unknown endpoint gets five attempts, but three short ones if nothing listens at its address", () => {
  const delays = (failure: object) =>
    [1, 2, 3, 4, 5].map((attempt) =>
      nextDelayMs({ message: "", retryable: true, ...failure }, attempt, defaultRetryDelaysMs),
    );
  expect(delays({})).toEqual([8_000, 16_000, 32_000, 64_000, undefined]);
  expect(delays({ unreachable: true, away: true }).slice(0, 3)).toEqual([2_000, 4_000, undefined]);
  expect(delays({ retryable: false, away: true })[0]).toBeUndefined();
});

test("an endpoint that has answered before is waited for some minutes if it is unavailable, but not if it refuses", () => {
  const next = (failure: object, failingMs: number, delays = defaultRetryDelaysMs) =>
    nextDelayMs({ message: "", retryable: true, ...failure }, 9, delays, failingMs);
  expect(next({ away: true }, 5 * minute)).toBe(64_000);
  expect(next({ unreachable: true, away: true }, 9 * minute)).toBe(16_000);
  expect(next({ away: true }, 11 * minute)).toBeUndefined();
  expect(next({}, minute)).toBeUndefined();
  expect(next({ away: true }, 0, [])).toBeUndefined();
});
