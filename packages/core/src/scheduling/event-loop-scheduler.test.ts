import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { beforeEach, expect, test } from "vitest";
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

test("work defers to a burst of connections, but not for long", async () => {
  const connections = 60;
  let taken = 0;
  /** Work that was done when each connection was taken. */
  const doneAt: number[] = [];
  let done = 0;
  const all = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    scheduler.noteConnection();
    socket.on("error", () => {});
    doneAt.push(done);
    if (++taken === connections) all.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: connections }, () => connect(port, "127.0.0.1").on("error", () => {}));

  const backlog = scheduler.queue("work");
  const step = () => {
    work(2);
    done++;
  };
  const inTurns = Array.from({ length: 100 }, () => scheduler.nextTurn("work").then(step));
  for (let index = 0; index < 100; index++) backlog.add(step);
  await all.promise;
  const meanwhile = done - doneAt[0]!;
  expect(meanwhile).toBeGreaterThan(3);
  expect(meanwhile).toBeLessThan(connections / 2);
  await Promise.all([...inTurns, backlog.drained()]);
  expect(done).toBe(200);
  for (const client of clients) client.destroy();
  server.close();
});

test("the result of queued work, or its error, reaches the caller", async () => {
  const queue = scheduler.queue("work");
  const failing = queue.run(() => {
    throw new Error("no");
  });
  await expect(failing).rejects.toThrow("no");
  expect(await queue.run(() => 42)).toBe(42);
});
