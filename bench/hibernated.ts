import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { getRuntimeDir, groups } from "@sandpiper/sandbox/test/support/oci";
import { figures, type Row, sample, single } from "./measure.ts";
import { type BenchService, openBenchService, spread, started } from "./sandbox-service.ts";

const count = 10_000;
/** Number of sandboxes that run at the same time. */
const batch = 500;

/** 10,000 hibernated sandboxes: memory, disk, and how quickly one can be used again. */
export async function benchHibernated(): Promise<Row[]> {
  const bench = await openBenchService();
  try {
    const before = { heap: heapInUse(), disk: diskInUse(bench.dir) };
    const ids: string[] = [];
    for (let made = 0; made < count; made += batch) {
      const some: string[] = [];
      await spread(batch, 4, async () => some.push(await started(bench.service)));
      await bench.hibernate(some);
      ids.push(...some);
      console.error(`${ids.length} are hibernated …`);
    }
    const left = leftovers(bench);
    const memory = (heapInUse() - before.heap) / count / 2 ** 10;
    const disk = (diskInUse(bench.dir) - before.disk) / count / 2 ** 10;
    const wakes = figures(
      await sample(20, (index) => bench.service.running(ids[((index + 3) * 397) % count]!)),
    );
    return [
      {
        name: `control groups, mounts and volatile files of ${count} hibernated sandboxes`,
        unit: "count",
        figures: single(left),
        target: "0",
        met: left === 0,
      },
      {
        name: "server memory of each of them",
        unit: "KB",
        figures: single(memory),
        target: "(as it is)",
        met: true,
      },
      { name: "disk of each of them", unit: "KB", figures: single(disk), target: "(as it is)", met: true },
      { name: "wake of one of them", unit: "ms", figures: wakes, target: "< 30 ms", met: wakes.p50 < 30 },
    ];
  } finally {
    await bench.end();
  }
}

/** A control group counts once per controller; processes without one have none. */
function leftovers({ dir }: BenchService): number {
  const volatile = getRuntimeDir(dir);
  const mounts = readFileSync("/proc/self/mountinfo", "utf8").split("\n");
  const ours = mounts.filter((line) => line.includes(dir) || line.includes(volatile));
  const files = ["state", "boxes"].flatMap((name) => readdirSync(join(volatile, name)));
  return groups(dir).length + ours.length + files.length;
}

/** Heap of the program's own objects after a collection, bytes; the rest can be given back. */
function heapInUse(): number {
  setFlagsFromString("--expose-gc");
  (runInNewContext("gc") as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** Bytes. */
function diskInUse(dir: string): number {
  return Number(execFileSync("du", ["-s", "-B1", dir], { encoding: "utf8" }).split("\t")[0]);
}
