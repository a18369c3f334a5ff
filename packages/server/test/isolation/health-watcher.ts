import { request } from "node:http";

/**
 * A separate process that polls `/health` at a fixed rate, so that a slow answer does not hide
 * later ones. Its argument is the URL. It answers each message with the times since the last
 * message and with the delay of its own timers (ms), which shows how slow the machine is.
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
  // An unanswered request counts with its time so far.
  const now = performance.now();
  process.send?.({ times: [...times, ...[...open].map((began) => now - began)], lags });
  times = [];
  lags = [];
});
process.on("disconnect", () => process.exit());
