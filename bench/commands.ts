import { spawn } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { figures, type Row, single } from "./measure.ts";
import { residentMemory } from "./process.ts";
import { type BenchServer, startBenchServer } from "./server-process.ts";

const size = 100 * 2 ** 20;
const mega = 2 ** 20;
const rounds = 5;
const command = `yes 0123456789abcdef | head -c ${size}`;

/** A command that prints 100 MB in a sandbox, polled every 100 ms like released clients do. */
export async function benchCommands(): Promise<Row[]> {
  const server = await startBenchServer();
  try {
    const sandbox = await server.sandbox();
    // The first command loads code.
    await run(server, sandbox, "true");
    const before = residentMemory(server.pid);
    const seconds: number[] = [];
    const floor: number[] = [];
    let most = 0;
    for (let round = 0; round < rounds; round++) {
      floor.push(await bare());
      const begin = performance.now();
      most = Math.max(most, await run(server, sandbox, command));
      seconds.push((performance.now() - begin) / 1000);
    }
    const own = figures(seconds);
    const used = Math.max(0, most - before) / mega;
    return [
      {
        ...{
          name: "a command that prints 100 MB, read to its end",
          unit: "s",
          figures: own,
          target: "< 10 s",
          met: own.p95 < 10,
        },
        floor: { name: "the same on the machine, read by Node", figures: figures(floor) },
      },
      {
        name: "server memory above idle while 5 of these run",
        unit: "MB",
        figures: single(used),
        target: "< 200 MB",
        met: used < 200,
      },
    ];
  } finally {
    await server.end();
  }
}

/** Runs a command; returns the server's peak memory, bytes. Throws if output is missing. */
async function run({ url, headers, pid }: BenchServer, sandbox: string, text: string): Promise<number> {
  const base = `${url}/api/bash`;
  const start = await fetch(`${base}/start_bash_command?sandbox_id=${sandbox}`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ command: text, timeout: 300 }),
  });
  const { id } = (await start.json()) as { id: string };
  let [order, length, memory] = [-1, 0, 0];
  for (;;) {
    const query = `sandbox_id=${sandbox}&command_id__eq=${id}&kind__eq=BashOutput&sort_order=TIMESTAMP&limit=100&order__gt=${order}`;
    const page = await fetch(`${base}/bash_events/search?${query}`, { headers });
    const { items } = (await page.json()) as {
      items: { order: number; stdout: string | null; exit_code: number | null }[];
    };
    memory = Math.max(memory, residentMemory(pid));
    for (const one of items) {
      order = one.order;
      length += one.stdout?.length ?? 0;
      if (one.exit_code === null) continue;
      if (text === command && length !== size) throw new Error(`${length} of ${size} characters came.`);
      return memory;
    }
    if (items.length === 0) await delay(100);
  }
}

/** Seconds. */
function bare(): Promise<number> {
  const begin = performance.now();
  const child = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "ignore"] });
  child.stdout.resume();
  return new Promise((resolve) => child.once("close", () => resolve((performance.now() - begin) / 1000)));
}
