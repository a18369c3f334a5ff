import { beforeEach, expect, test, vi } from "vitest";
import { EventLoopScheduler } from "./event-loop-scheduler.ts";

let scheduler: EventLoopScheduler;
beforeEach(() => {
  scheduler = new EventLoopScheduler();
});

/** Keeps the event loop busy, ms. */
function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test("a queue runs its work in order, and other work runs between slices", async () => {
  const backlog = scheduler.queue("work");
  const done: number[] = [];
  let served = 0;
  const visitor = setInterval(() => served++, 1);
  const add = (index: number) =>
    backlog.add(() => {
      work(2);
      done.push(index);
    });
  for (let index = 0; index < 30; index++) add(index);
  expect(done).toEqual([]);
  await backlog.drained();
  clearInterval(visitor);
  expect(done).toEqual(Array.from({ length: 30 }, (_, index) => index));
  expect(served).toBeGreaterThan(2);
});

test("work that is added during or just after other work runs too", async () => {
  const backlog = scheduler.queue("work");
  const done: string[] = [];
  const add = (name: string) => backlog.add(() => void done.push(name));
  await backlog.drained();
  backlog.add(() => add("given by work"));
  // Each of these comes some microtasks later than the one before it.
  for (let index = 0; index < 20; index++) {
    await Promise.resolve();
    add(`${index}`);
  }
  await backlog.drained();
  expect(done.toSorted()).toEqual(
    ["given by work", ...Array.from({ length: 20 }, (_, index) => `${index}`)].toSorted(),
  );
});

test("each caller of a lane gets a round of its own, in order", async () => {
  const done: string[] = [];
  let rounds = 0;
  const count = () => {
    rounds++;
    if (done.length < 3) setImmediate(count);
  };
  setImmediate(count);
  const at: number[] = [];
  await Promise.all(
    ["a", "b", "c"].map(async (name) => {
      await scheduler.nextTurn("work");
      done.push(name);
      at.push(rounds);
    }),
  );
  expect(done).toEqual(["a", "b", "c"]);
  expect(new Set(at).size).toBe(3);
});

test("several queues with work share the time of a round", async () => {
  const perRound: number[] = [0];
  const names = ["a", "b", "c", "d", "e", "f"];
  const done: string[] = [];
  for (const name of names) {
    for (let index = 0; index < 10; index++) {
      scheduler.queue(name).add(() => {
        work(1);
        done.push(name);
        perRound.push(perRound.pop()! + 1);
      });
    }
  }
  const count = () => {
    perRound.push(0);
    if (done.length < 60) setImmediate(count);
  };
  setImmediate(count);
  await Promise.all(names.map((name) => scheduler.queue(name).drained()));
  // Work that takes 1 ms, or more beside other programs: a slice of 5 ms ends with the sixth.
  expect(Math.max(...perRound)).toBeLessThanOrEqual(6);
  expect(done.slice(0, 12)).toEqual([...names, ...names]);
});

test("work defers to a burst of connections, but not for long", async () => {
  // A clock that only what is done here moves on, so that the load of the machine has no effect.
  let clock = 0;
  const now = vi.spyOn(performance, "now").mockImplementation(() => clock);
  try {
    let left = 300;
    let done = 0;
    const round = () => {
      scheduler.noteConnection();
      clock += 1;
      if (--left > 0) setImmediate(round);
    };
    const step = () => {
      clock += 2;
      done++;
    };
    setImmediate(round);
    const inTurns = Array.from({ length: 200 }, () => scheduler.nextTurn("work").then(step));
    for (let index = 0; index < 200; index++) scheduler.queue("work").add(step);
    while (left > 0) await new Promise((resolve) => setImmediate(resolve));
    // One round in ten has work: a step of the lane, and one or two of the queue.
    expect(done).toBeGreaterThan(30);
    expect(done).toBeLessThan(120);
    await Promise.all([...inTurns, scheduler.queue("work").drained()]);
    expect(done).toBe(400);
  } finally {
    now.mockRestore();
  }
});

test("the result of queued work, or its error, reaches the caller", async () => {
  const queue = scheduler.queue("work");
  const failing = queue.run(() => {
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  expect(await queue.run(() => 42)).toBe(42);
});
