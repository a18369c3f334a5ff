import { readFileSync } from "node:fs";
import { request } from "node:http";

/** How quickly a server answers `/health` (ms), and how many requests got no answer. */
export interface Watched {
  times: number[];
  /** Processor time of the server's main thread from each request to its answer, ms. */
  work: number[];
  lost: number;
}

const everyMs = 20;
/** An answer that takes longer is lost. */
const patienceMs = 10_000;

/**
 * A process that polls `/health` of the servers in its arguments at a fixed rate, each time over a
 * new connection, so that a slow answer does not hide later ones. It answers each message with what
 * it watched since the last message, for each server.
 */
const servers = process.argv.slice(2).map((text) => JSON.parse(text) as { url: string; pid: number });
const watched = servers.map((): Watched => ({ times: [], work: [], lost: 0 }));
/** When the open requests to each server began. */
const open = servers.map(() => new Set<number>());
let due = performance.now();

function ask(which: number): void {
  const { url, pid } = servers[which]!;
  const began = performance.now();
  const workBefore = readWork(pid);
  const own = open[which]!;
  own.add(began);
  const settle = (answered: boolean) => {
    if (!own.delete(began)) return;
    if (answered) {
      watched[which]!.times.push(performance.now() - began);
      watched[which]!.work.push(readWork(pid) - workBefore);
    } else watched[which]!.lost++;
  };
  const options = { agent: false, timeout: patienceMs };
  const call = request(`${url}/health`, options, (answer) => {
    answer.resume();
    answer.on("end", () => settle(answer.statusCode === 200)).on("error", () => settle(false));
  });
  call.on("timeout", () => call.destroy()).on("error", () => settle(false));
  call.end();
}

function tick(): void {
  const now = performance.now();
  due = Math.max(due + everyMs, now);
  setTimeout(tick, due - now);
  for (const which of servers.keys()) ask(which);
}

/** Processor time of a process's main thread, ms. */
function readWork(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, "utf8").split(" ", 1)[0]) / 1e6;
}

tick();
process.on("message", () => {
  const now = performance.now();
  // An unanswered request counts with its time so far.
  const answer = watched.map(({ times, work, lost }, which) => ({
    times: [...times, ...[...open[which]!].map((began) => now - began)],
    ...{ work, lost },
  }));
  for (const [which, one] of watched.entries()) {
    one.times = [];
    one.work = [];
    one.lost = 0;
    open[which]!.clear();
  }
  process.send?.(answer);
});
process.on("disconnect", () => process.exit());
