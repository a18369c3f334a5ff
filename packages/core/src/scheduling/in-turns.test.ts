import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { Backlog, newcomer, Turns } from "./in-turns.ts";

/** Keeps the event loop busy, ms. */
function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test("a backlog does everything in order, and others get their turn meanwhile", async () => {
  const backlog = new Backlog();
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
  await backlog.done();
  clearInterval(visitor);
  expect(done).toEqual(Array.from({ length: 30 }, (_, index) => index));
  expect(served).toBeGreaterThan(2);
});

test("what is given to a backlog while it works, or just when it has ended, is done too", async () => {
  const backlog = new Backlog();
  const done: string[] = [];
  const add = (name: string) => backlog.add(() => void done.push(name));
  await backlog.done();
  backlog.add(() => add("given by work"));
  // Each of these comes some microtasks later than the one before it.
  for (let index = 0; index < 20; index++) {
    await Promise.resolve();
    add(`${index}`);
  }
  await backlog.done();
  expect(done.toSorted()).toEqual(
    ["given by work", ...Array.from({ length: 20 }, (_, index) => `${index}`)].toSorted(),
  );
});

test("each of those who ask for a turn gets a round of its own, in order", async () => {
  const turns = new Turns();
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
      await turns.next();
      done.push(name);
      at.push(rounds);
    }),
  );
  expect(done).toEqual(["a", "b", "c"]);
  expect(new Set(at).size).toBe(3);
});

test("work gives way to connections that come at once, and is not held up by them", async () => {
  const connections = 60;
  let taken = 0;
  /** Work that was done when each connection was taken. */
  const doneAt: number[] = [];
  let done = 0;
  const all = Promise.withResolvers<void>();
  const server = createServer((socket) => {
    newcomer();
    socket.on("error", () => {});
    doneAt.push(done);
    if (++taken === connections) all.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const clients = Array.from({ length: connections }, () => connect(port, "127.0.0.1").on("error", () => {}));
  const turns = new Turns();
  const backlog = new Backlog();
  const step = () => {
    work(2);
    done++;
  };
  const inTurns = Array.from({ length: 100 }, () => turns.next().then(step));
  for (let index = 0; index < 100; index++) backlog.add(step);
  await all.promise;
  const meanwhile = done - doneAt[0]!;
  expect(meanwhile).toBeGreaterThan(3);
  expect(meanwhile).toBeLessThan(connections / 2);
  await Promise.all([...inTurns, backlog.done()]);
  expect(done).toBe(200);
  for (const client of clients) client.destroy();
  server.close();
});
