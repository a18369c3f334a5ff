import fc from "fast-check";
import { expect, test } from "vitest";
import { readRetryAfter, retryDelay } from "./backoff.ts";
import { Slots } from "./slots.ts";

const never = new AbortController().signal;

test("no key ever has more than its limit, everyone gets in, and a full key lets others pass", async () => {
  const limits = [5, 3, 2];
  const people = fc.array(fc.record({ owner: fc.nat(2), place: fc.nat(3) }), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(people, async (entering) => {
      const slots = new Slots(limits);
      const inside = new Map<string, number>();
      const count = (keys: string[], change: number) => {
        for (const [index, key] of keys.entries()) {
          inside.set(key, (inside.get(key) ?? 0) + change);
          expect(inside.get(key)).toBeLessThanOrEqual(limits[index]!);
        }
      };
      const visits = entering.map(async ({ owner, place }) => {
        const keys = ["all", `owner ${owner}`, `owner ${owner} ${place}`];
        const leave = await slots.enter(keys, never);
        count(keys, 1);
        await Promise.resolve();
        count(keys, -1);
        leave!();
      });
      await Promise.all(visits);
    }),
  );
  const slots = new Slots([5, 1]);
  await slots.enter(["all", "full"], never);
  void slots.enter(["all", "full"], never);
  expect(await slots.enter(["all", "other"], never)).toBeInstanceOf(Function);
});

test("who gives up waiting leaves the queue", async () => {
  const slots = new Slots([1]);
  const leave = await slots.enter(["all"], never);
  const giveUp = new AbortController();
  const waiting = slots.enter(["all"], giveUp.signal);
  giveUp.abort();
  expect(await waiting).toBeUndefined();
  expect(await slots.enter(["all"], giveUp.signal)).toBeUndefined();
  leave!();
  expect(await slots.enter(["all"], never)).toBeInstanceOf(Function);
});

test("waits grow from a second to a quarter of an hour, differ, and are never shorter than asked", () => {
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
])("Retry-After %j is %j ms", (text, ms) => {
  expect(readRetryAfter(text, 0)).toBe(ms);
});
