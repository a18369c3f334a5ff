import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import { openPostgresStore } from "@sandpiper/server/store/postgres/open";
import { createVault } from "@sandpiper/server/store/vault";
import { type PostgresServer, startPostgres } from "@sandpiper/server/test/support/postgres";
import { conversationRow } from "@sandpiper/server/test/support/store";
import { type Row, single } from "./measure.ts";
import { type DatabaseUse, divideProcessors, pinDatabase, watchDatabase } from "./nodes-database.ts";
import { startProgram } from "./process.ts";

/** Number of conversations of one node. Each appends again when its last append is durable. */
const atOnce = 20;
const measuredMs = 5_000;
const program = fileURLToPath(new URL("./nodes-appender.ts", import.meta.url));

/**
 * Measures appends of 1, 2 and 4 nodes, beside as many processes that only commit rows. PostgreSQL
 * has a processor of its own where there are two, so that its share of it shows whether it is the
 * limit. Commits are durable.
 */
export async function benchNodesAppends(): Promise<Row[]> {
  const server = await startPostgres({ max_connections: "400" });
  try {
    const url = await server.createDatabase();
    const key = randomBytes(32);
    const store = await openPostgresStore({ url, vault: createVault(key) });
    const ids = Array.from({ length: 4 * atOnce }, () => conversationRow());
    for (const row of ids) await store.conversations.create(row);
    await store.close();
    await createBareTable(server, url);
    pinDatabase(server, divideProcessors().database);
    const one = await rate("appends", { url, key, ids: ids.slice(0, 1).map(({ id }) => id) });
    const rows: Row[] = [];
    let alone: number | undefined;
    let fewer = 0;
    for (const nodes of [1, 2, 4]) {
      const measure = (kind: string) =>
        Promise.all(
          Array.from({ length: nodes }, (_, node) =>
            rate(kind, { url, key, ids: ids.slice(node * atOnce, (node + 1) * atOnce).map(({ id }) => id) }),
          ),
        );
      const bare = sum(await measure("bare"));
      const { result: each, use } = await watchDatabase(server, () => measure("appends"));
      const all = sum(each);
      if (alone === undefined) rows.push(atOnceRow(one, all));
      alone ??= all;
      const grows = `${(all / alone).toFixed(2)} x one node`;
      const widest = Math.max(...each) / (all / nodes) - 1;
      rows.push({
        name: `appends of ${nodes} ${nodes === 1 ? "node" : "nodes"} (${grows}; the busiest does ${percent(widest)} more than the mean; the database uses ${percent(use.processor)} of its processor and waits for the disk of its log in ${percent(use.logDisk)} of the looks)`,
        unit: "per s",
        figures: single(all),
        floor: { name: "commits of one row by as many processes", figures: single(bare) },
        target: "grows until the database is the limit",
        met: all > fewer || isLimit(use),
      });
      fewer = all;
    }
    return rows;
  } finally {
    await server.remove();
  }
}

/** Whether the database is the limit: its processor is busy, or connections wait for its disk. */
function isLimit({ processor, logDisk }: DatabaseUse): boolean {
  return processor > 0.9 || logDisk > 0.6;
}

const percent = (share: number) => `${(100 * share).toFixed(0)} %`;

/** What appends to many conversations at once cost beside one append, from the rates per second. */
function atOnceRow(one: number, many: number): Row {
  const [oneMs, manyMs] = [1_000 / one, (1_000 * atOnce) / many];
  return {
    name: `an append to each of ${atOnce} conversations at once, one node`,
    unit: "ms",
    figures: single(manyMs),
    floor: { name: "an append to one conversation", figures: single(oneMs) },
    target: "< 3 x floor",
    met: manyMs < 3 * oneMs,
  };
}

async function createBareTable(server: PostgresServer, url: string): Promise<void> {
  const sql = "CREATE TABLE bare (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text text)";
  await server.query(sql, [], new URL(url).pathname.slice(1));
}

/** Starts a process and returns its number of appends or commits per second. */
async function rate(
  kind: string,
  { url, key, ids }: { url: string; key: Buffer; ids: readonly string[] },
): Promise<number> {
  const env = {
    BENCH_URL: url,
    BENCH_KEY: key.toString("hex"),
    BENCH_IDS: ids.join(" "),
    BENCH_MS: String(measuredMs),
  };
  const pattern = /per second: ([\d.]+)/;
  const { child, match } = await startProgram([program, kind], env, pattern, divideProcessors().nodes);
  child.kill();
  return Number(match[1]);
}

const sum = (values: readonly number[]) => values.reduce((one, other) => one + other, 0);
