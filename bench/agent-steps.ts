import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { fillWithHistories } from "./agent-history.ts";
import type { Exchange } from "./agent-model.ts";
import { type AgentBench, startAgentBench } from "./agent-processes.ts";
import { type Figures, figures, type Row } from "./measure.ts";

const conversations = 6;
const steps = 25;
/** The first conversation warms the server up. */
const warmUp = 1;

/** The loop's own cost of a step: from the end of an answer of the model to its next request. */
export async function stepRows(events: number, targetMs: number): Promise<Row[]> {
  const loop = await withServer(events, true, async (bench) => {
    const { calls } = await bench.noted();
    return gapsOf(calls.map(({ name, begin, end }) => ({ name, from: begin, to: end })));
  });
  let requestBytes = 0;
  const { wire, floor } = await withServer(events, false, async (bench) => {
    const wire = gapsOf(named(await bench.exchanges()));
    requestBytes = events * 330;
    return { wire, floor: await bareSteps(bench, requestBytes) };
  });
  const [own, whole, bare] = [figures(loop), figures(wire), figures(floor)];
  const floorRow = (name: string, series: Figures) => ({ floor: { name, figures: series } });
  return [
    {
      name: `a step at ${events} events, without the provider's wire`,
      ...{ unit: "ms", figures: own, target: `< ${targetMs} ms`, met: own.p50 < targetMs },
      ...floorRow("bare fetch of the same size + one durable append", bare),
    },
    {
      name: `the same with a model behind HTTP (${(requestBytes / 1e6).toFixed(2)} MB)`,
      ...{ unit: "ms", figures: whole, target: "(as it is)", met: true },
      ...floorRow("the same", bare),
    },
  ];
}

async function withServer<T>(
  events: number,
  local: boolean,
  work: (bench: AgentBench) => Promise<T>,
): Promise<T> {
  let ids: string[] = [];
  const bench = await startAgentBench(
    async (dir) => (ids = await fillWithHistories(dir, conversations, events)),
    { local },
  );
  try {
    for (const [index, id] of ids.entries()) {
      await bench.begin(id, `${index}`, steps);
      await bench.rested();
    }
    return await work(bench);
  } finally {
    await bench.end();
  }
}

/** Steps of an otherwise idle program. */
async function bareSteps({ modelUrl, exchanges }: AgentBench, bytes: number): Promise<number[]> {
  const dir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const program = fileURLToPath(new URL("./agent-floor.ts", import.meta.url));
  const child = fork(program, [
    join(dir, "plain.db"),
    modelUrl,
    "9",
    String(steps * conversations),
    String(bytes),
  ]);
  await once(child, "exit");
  rmSync(dir, { recursive: true, force: true });
  return gapsOf(named(await exchanges()));
}

interface Span {
  name: string;
  from: number;
  to: number;
}

const named = (exchanges: Map<string, Exchange[]>): Span[] =>
  [...exchanges].flatMap(([name, all]) =>
    all.map(({ arrived, answered }) => ({ name, from: arrived, to: answered })),
  );

/** From the end of each to the beginning of the next of its name. */
function gapsOf(spans: readonly Span[]): number[] {
  const byName = Map.groupBy(
    spans.filter(({ name }) => Number(name) >= warmUp),
    ({ name }) => name,
  );
  return [...byName.values()].flatMap((all) => all.slice(1).map(({ from }, index) => from - all[index]!.to));
}
