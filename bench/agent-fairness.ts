import { fileURLToPath } from "node:url";
import { fillWithHistories } from "./agent-history.ts";
import { startAgentBench } from "./agent-processes.ts";
import { figures, type Row, single } from "./measure.ts";
import { startProgram, stopProgram } from "./process.ts";

const floorHttp = fileURLToPath(new URL("./floor-http.ts", import.meta.url));

const conversations = 200;
const steps = 30;
/** Between two questions after the server's health, ms. */
const healthEveryMs = 10;

/** 200 conversations that step at once: whether any of them starves, and whether the API does. */
export async function fairnessRows(): Promise<Row[]> {
  let ids: string[] = [];
  const bench = await startAgentBench(async (dir) => (ids = await fillWithHistories(dir, conversations, 50)));
  try {
    await bench.begin(ids[0]!, "warm", steps);
    await bench.rested();
    // An idle process shows what the machine's other work costs.
    const bare = await startProgram([floorHttp], { BODY_FILE: floorHttp }, /\d+/);
    const began = performance.now();
    const all = Promise.all(ids.map((id, index) => bench.begin(id, `of-${index}`, steps))).then(() =>
      bench.rested(500),
    );
    const [loaded, floor] = await Promise.all([
      health(bench.url, all),
      health(`http://127.0.0.1:${bare.match[0]}`, all),
    ]);
    const own = figures(loaded);
    const ms = performance.now() - began;
    await stopProgram(bare.child);
    const exchanges = await bench.exchanges();
    const spans = [...exchanges]
      .filter(([name]) => name !== "warm")
      .map(([, all]) => all.at(-1)!.answered - all[0]!.arrived);
    if (spans.length !== conversations)
      throw new Error(`Only ${spans.length} conversations have come to an end.`);
    const ratio = Math.max(...spans) / Math.min(...spans);
    return [
      {
        name: `${conversations} conversations step at once: slowest over fastest`,
        ...{ unit: "x", figures: single(ratio), target: "< 2", met: ratio < 2 },
      },
      {
        name: "steps of all of them",
        ...{
          unit: "per s",
          figures: single((conversations * steps * 1000) / ms),
          target: "(as it is)",
          met: true,
        },
      },
      {
        name: "/health meanwhile",
        ...{ unit: "ms", figures: own, target: "p99 < 50 ms", met: own.p99 < 50 },
        floor: {
          name: `an idle bare http server meanwhile (p99 ${Math.round(figures(floor).p99)} ms)`,
          figures: figures(floor),
        },
      },
    ];
  } finally {
    await bench.end();
  }
}

/** Sends requests at fixed times until something is over, without waiting for earlier answers. */
async function health(url: string, over: Promise<unknown>): Promise<number[]> {
  const times: number[] = [];
  const open = new Set<Promise<void>>();
  const ask = async () => {
    const began = performance.now();
    await (await fetch(`${url}/health`)).text();
    times.push(performance.now() - began);
  };
  const timer = setInterval(() => {
    const question = ask().finally(() => open.delete(question));
    open.add(question);
  }, healthEveryMs);
  await over.finally(() => clearInterval(timer));
  await Promise.all(open);
  return times;
}
