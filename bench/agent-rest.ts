import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fillWithHistories } from "./agent-history.ts";
import { type AgentBench, startAgentBench } from "./agent-processes.ts";
import { figures, type Row, sample, single } from "./measure.ts";

const coldOnes = 40;
const coldEvents = 1_000;
const idleOnes = 5_000;
/** As many run at the same time. */
const batch = 50;

/**
 * Time from `Runner.wake` to the complete model request, for conversations not yet in memory. Does
 * not wait for the sandbox.
 */
export async function wakeRows(): Promise<Row[]> {
  let ids: string[] = [];
  const bench = await startAgentBench(
    async (dir) => (ids = await fillWithHistories(dir, coldOnes, coldEvents)),
  );
  try {
    const times: number[] = [];
    for (const [index, id] of ids.entries()) {
      await bench.begin(id, `cold-${index}`, 0);
      await bench.rested();
      const { wakes } = await bench.noted();
      const [exchange] = (await bench.exchanges()).get(`cold-${index}`) ?? [];
      if (index >= 3) times.push(exchange!.arrived - wakes.find(([woken]) => woken === id)![1]);
    }
    const floor = await bareReads(bench, ids);
    const own = figures(times);
    return [
      {
        name: `wake of a cold conversation with ${coldEvents} events, to its request at the model`,
        ...{ unit: "ms", figures: own, target: "< 20 ms", met: own.p50 < 20 },
        floor: { name: "plain SQLite: read and parse them", figures: figures(floor) },
      },
    ];
  } finally {
    await bench.end();
  }
}

function bareReads({ dir }: AgentBench, ids: readonly string[]): Promise<number[]> {
  const database = new DatabaseSync(join(dir, "store", "sandpiper.db"), { readOnly: true });
  const read = database.prepare(
    "SELECT json FROM events WHERE conversation = (SELECT number FROM conversations WHERE id = ?) ORDER BY key",
  );
  return sample(ids.length - 3, async (index) => {
    for (const { json } of read.iterate(ids[index + 3]!)) JSON.parse(json as string);
  }).finally(() => database.close());
}

/** Memory of unloaded conversations, as after minutes of rest. */
export async function idleRows(): Promise<Row[]> {
  let ids: string[] = [];
  const bench = await startAgentBench(
    async (dir) => (ids = await fillWithHistories(dir, idleOnes + 4 * batch, 0)),
  );
  try {
    for (let at = 0; at < 4 * batch; at += batch) await run(bench, ids.slice(at, at + batch));
    const before = await bench.memory();
    for (let at = 4 * batch; at < ids.length; at += batch) await run(bench, ids.slice(at, at + batch));
    const after = await bench.memory();
    const heap = (after.heap - before.heap) / idleOnes / 1024;
    return [
      {
        name: `server memory of each of ${idleOnes} conversations that have run, unloaded`,
        ...{ unit: "KB", figures: single(heap), target: "< 1 KB", met: heap < 1 },
        floor: { name: "an entry of a Map with the id", figures: single(mapEntry()) },
      },
      {
        name: "their resident memory, with what the process would give back",
        ...{
          unit: "KB",
          figures: single((after.resident - before.resident) / idleOnes / 1024),
          target: "(as it is)",
          met: true,
        },
      },
      {
        name: "runs, followers, views, workspaces and shells that are left of them",
        ...{ unit: "count", figures: single(after.instances), target: "0", met: after.instances === 0 },
      },
    ];
  } finally {
    await bench.end();
  }
}

async function run(bench: AgentBench, ids: readonly string[]): Promise<void> {
  await Promise.all(ids.map((id) => bench.begin(id, id.slice(0, 8), 1)));
  await bench.rested();
  await bench.exchanges();
  await bench.noted();
}

/** KB. */
function mapEntry(): number {
  const before = process.memoryUsage().heapUsed;
  const map = new Map(Array.from({ length: 50_000 }, () => [randomUUID(), { since: 0 }]));
  return (process.memoryUsage().heapUsed - before) / map.size / 1024;
}
