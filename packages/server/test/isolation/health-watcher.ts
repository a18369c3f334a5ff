import { request } from "node:http";

/**
 * A process of its own that asks a server for its health at a fixed rate, however slowly that answers, so that a slow answer does not hide those
 * that would have come after it. It gets the address as its argument; to each message it answers with the times since the last one, and with how late
 * its own timers were meanwhile, ms: that is how slow the machine is for everybody.
 */
const [url] = process.argv.slice(2);
const everyMs = 10;
let times: number[] = [];
let lags: number[] = [];
let due = performance.now() + everyMs;
const open = new Set<number>();

function ask(): void {
  const began = performance.now();
  open.add(began);
  const done = () => {
    open.delete(began);
    times.push(performance.now() - began);
  };
  const call = request(`${url}/health`, { agent: false }, (answer) => {
    answer.resume().on("end", () => (answer.statusCode === 200 ? done() : fail(`${answer.statusCode}`)));
  });
  call.on("error", (error) => fail(error.message)).end();
}

function fail(reason: string): void {
  process.send?.({ error: reason });
}

function tick(): void {
  const now = performance.now();
  lags.push(now - due);
  due = Math.max(due + everyMs, now);
  setTimeout(tick, due - now);
  ask();
}

setTimeout(tick, everyMs);
process.on("message", () => {
  // What is still unanswered counts with the time that it has taken so far.
  const now = performance.now();
  process.send?.({ times: [...times, ...[...open].map((began) => now - began)], lags });
  times = [];
  lags = [];
});
process.on("disconnect", () => process.exit());
