import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import type { PostgresServer } from "@sandpiper/server/test/support/postgres";
import pg from "pg";

/** What a database did while it was watched. */
export interface DatabaseUse {
  /** Share of one processor that all processes of the server used, 0 to 1. */
  readonly processor: number;
  /** Share of the looks at busy connections that found one waiting for the log's disk, 0 to 1. */
  readonly logDisk: number;
}

/** Clock ticks of a second in `/proc/PID/stat`. */
const ticks = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));
const lookEveryMs = 20;

/** The processor that PostgreSQL has alone, and those of the nodes, as lists of `taskset`. */
export function divideProcessors(): { database: string; nodes: string } {
  const last = cpus().length - 1;
  if (last === 0) return { database: "0", nodes: "0" };
  return { database: String(last), nodes: last === 1 ? "0" : `0-${last - 1}` };
}

/** Moves a server, with the processes that it will start, to one processor. */
export function pinDatabase(server: PostgresServer, processor: string): void {
  for (const id of processesOf(server)) {
    execFileSync("taskset", ["--all-tasks", "--cpu-list", "--pid", processor, String(id)], {
      stdio: "ignore",
    });
  }
}

/** Watches a database until `work` ends. Returns what `work` returns, and what the database did. */
export async function watchDatabase<Result>(
  server: PostgresServer,
  work: () => Promise<Result>,
): Promise<{ result: Result; use: DatabaseUse }> {
  const client = new pg.Client({ connectionString: server.url() });
  await client.connect();
  const known = new Map<number, number>();
  let used = 0;
  let looks = 0;
  let waiting = 0;
  let isWatched = true;
  const look = async () => {
    // A backend that ends between two looks takes at most one interval with it.
    for (const id of processesOf(server)) {
      const time = processorTicks(id);
      used += Math.max(0, time - (known.get(id) ?? time));
      known.set(id, time);
    }
    const { rows } = await client.query<{ disk: number; all: number }>(
      `SELECT count(*) FILTER (WHERE wait_event IN ('WALSync', 'WalSync', 'WALWrite', 'WalWrite'))::integer AS disk,
              count(*)::integer AS all
         FROM pg_stat_activity
        WHERE state = 'active' AND backend_type = 'client backend' AND pid <> pg_backend_pid()`,
    );
    waiting += rows[0]!.disk;
    looks += rows[0]!.all;
  };
  const began = performance.now();
  const watching = (async () => {
    while (isWatched) {
      await look();
      await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
    }
  })();
  try {
    const result = await work();
    isWatched = false;
    await watching;
    const seconds = (performance.now() - began) / 1_000;
    return { result, use: { processor: used / ticks / seconds, logDisk: waiting / Math.max(1, looks) } };
  } finally {
    isWatched = false;
    await watching.catch(() => {});
    await client.end();
  }
}

/** Returns the process of a server and those that it started. */
function processesOf({ folder }: PostgresServer): number[] {
  const first = Number(readFileSync(join(folder, "postmaster.pid"), "utf8").split("\n", 1)[0]);
  const started = readdirSync(`/proc/${first}/task`).flatMap((task) =>
    readFileSync(`/proc/${first}/task/${task}/children`, "utf8").split(" ").filter(Boolean).map(Number),
  );
  return [first, ...started];
}

/** Returns the processor time of a process in clock ticks, or 0 when it has ended. */
function processorTicks(id: number): number {
  try {
    const fields = readFileSync(`/proc/${id}/stat`, "utf8").split(") ").at(-1)!.split(" ");
    return Number(fields[11]) + Number(fields[12]);
  } catch {
    return 0;
  }
}
