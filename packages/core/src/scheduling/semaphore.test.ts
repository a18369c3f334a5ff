import fc from "fast-check";
import { expect, test } from "vitest";
import { KeyedSemaphore, Semaphore } from "./semaphore.ts";

const never = new AbortController().signal;

test("no key exceeds its limit, every waiter is admitted, and a full key does not block others", async () => {
  const limits = [5, 3, 2];
  const people = fc.array(fc.record({ owner: fc.nat(2), place: fc.nat(3) }), { maxLength: 60 });
  await fc.assert(
    fc.asyncProperty(people, async (entering) => {
      const slots = new KeyedSemaphore(limits);
      const inside = new Map<string, number>();
      const count = (keys: string[], change: number) => {
        for (const [index, key] of keys.entries()) {
          inside.set(key, (inside.get(key) ?? 0) + change);
          expect(inside.get(key)).toBeLessThanOrEqual(limits[index]!);
        }
      };
      const visits = entering.map(async ({ owner, place }) => {
        const keys = ["all", `owner ${owner}`, `owner ${owner} ${place}`];
        const leave = await slots.acquire(keys, never);
        count(keys, 1);
        await Promise.resolve();
        count(keys, -1);
        leave!();
      });
      await Promise.all(visits);
    }),
  );
  const slots = new KeyedSemaphore([5, 1]);
  await slots.acquire(["all", "full"], never);
  void slots.acquire(["all", "full"], never);
  expect(await slots.acquire(["all", "other"], never)).toBeInstanceOf(Function);
});

test("an aborted waiter leaves the queue", async () => {
  const slots = new KeyedSemaphore([1]);
  const leave = await slots.acquire(["all"], never);
  const giveUp = new AbortController();
  const waiting = slots.acquire(["all"], giveUp.signal);
  giveUp.abort();
  expect(await waiting).toBeUndefined();
  expect(await slots.acquire(["all"], giveUp.signal)).toBeUndefined();
  leave!();
  expect(await slots.acquire(["all"], never)).toBeInstanceOf(Function);
});

test("a ticket is counted while it waits and may be released more than once", async () => {
  const slots = new Semaphore(1);
  const first = slots.enter();
  const second = slots.enter();
  const third = slots.enter();
  expect(slots.waiting).toBe(2);
  second.release();
  first.release();
  first.release();
  await third.ready;
  expect([slots.waiting, slots.isIdle]).toEqual([0, false]);
  third.release();
  expect(slots.isIdle).toBe(true);
});
