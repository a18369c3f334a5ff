import { writeSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { isMainThread, parentPort, workerData } from "node:worker_threads";

/**
 * Preloaded into each thread of a server (`node --import`). In the writing thread it counts the
 * commits with events of conversations created since the start, prints each to standard error
 * (`commit N`), and kills the process with SIGKILL at the position in `KILL_AT_COMMIT`: `before:N`,
 * `after:N` (durable, not announced) or `announced:N` (just after the announcement).
 */

/** How long the server keeps running after the announcement, ms. */
const announcedMs = 4;

const [when, at] = (process.env.KILL_AT_COMMIT ?? ":0").split(":");
let commits = 0;
/** The transaction that is open, or was just committed, holds such events. */
let holdsEvents = false;
let newest: number | undefined;

const isDue = (phase: string) => holdsEvents && phase === when && commits === Number(at);
const die = () => process.kill(process.pid, "SIGKILL");

if (!isMainThread && typeof workerData?.file === "string" && parentPort) {
  const { prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    const statement = prepare.call(this, sql, ...rest);
    const wrap = (around: (run: () => unknown, values: unknown[]) => unknown) => {
      const run = statement.run.bind(statement) as (...values: unknown[]) => unknown;
      statement.run = ((...values: unknown[]) =>
        around(() => run(...values), values)) as typeof statement.run;
    };
    if (sql.startsWith("BEGIN")) {
      wrap((run) => {
        holdsEvents = false;
        return run();
      });
    } else if (sql.startsWith("INSERT INTO events")) {
      newest ??= Number(
        prepare.call(this, "SELECT coalesce(max(number), 0) AS number FROM conversations").get()?.number,
      );
      const known = newest;
      // A sub-agent counts with the conversation that it works for.
      const root = prepare.call(
        this,
        "SELECT coalesce(p.number, c.number) AS number FROM conversations c LEFT JOIN conversations p ON p.id = c.parent_id WHERE c.number = ?",
      );
      wrap((run, [, conversation]) => {
        if (Number(root.get(conversation as number)?.number) > known) holdsEvents = true;
        return run();
      });
    } else if (sql === "COMMIT") {
      wrap((run) => {
        if (holdsEvents) commits += 1;
        if (isDue("before")) die();
        run();
        if (holdsEvents) writeSync(2, `commit ${commits}\n`);
        if (isDue("after")) die();
      });
    }
    return statement;
  };
  const port = parentPort;
  const send = port.postMessage.bind(port);
  port.postMessage = (message: unknown) => {
    send(message);
    if (!isDue("announced")) return;
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, announcedMs);
    die();
  };
}
