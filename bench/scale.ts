import { readFileSync } from "node:fs";
import { join } from "node:path";
import { groups } from "@sandpiper/sandbox/test/support/oci";
import { BareRuntime } from "./bare-runtime.ts";
import { figures, type Row, sample, single } from "./measure.ts";
import { availableMemory, kernelMemory, proportionalMemory, residentMemory } from "./process.ts";
import { type BenchService, openBenchService, spread, started, user } from "./sandbox-service.ts";
import { TimedShell } from "./timed-shell.ts";

const count = 1_000;
/** Concurrent calls, as if from several users. */
const atOnce = 4;
/** Starts whose median is compared, at the beginning and at the end. */
const compared = 50;

/** 1,000 sandboxes that run at the same time: start, memory, deletion. */
export async function benchScale(): Promise<Row[]> {
  const shell = new TimedShell();
  const server = residentMemory(process.pid);
  const bench = await openBenchService();
  try {
    const id = await started(bench.service);
    const bare = new BareRuntime(bench, shell, id);
    await spread(20, atOnce, () => started(bench.service));
    const floor = await bareRates(bare);
    return await thousand(bench, floor, server);
  } finally {
    shell.close();
    await bench.end();
  }
}

async function bareRates(bare: BareRuntime): Promise<{ starts: number; ends: number }> {
  const durations = await sample(
    100,
    async (index) => {
      bare.prepare(`bare${index}`);
      return bare.run(`bare${index}`);
    },
    0,
  );
  return { starts: perSecond(durations), ends: perSecond(await bare.end()) };
}

async function thousand(
  { service, dir }: BenchService,
  floor: { starts: number; ends: number },
  server: number,
): Promise<Row[]> {
  const before = { available: availableMemory(), kernel: kernelMemory() };
  const ids: string[] = [];
  const durations: number[] = [];
  const startRate = await rate(async () => {
    const began = performance.now();
    ids.push(await started(service));
    durations.push(performance.now() - began);
  });
  // Other programs of the machine move both figures, so the larger one counts.
  const available = before.available - availableMemory() + server;
  const parts = kernelMemory() - before.kernel + proportionalMemory([process.pid, ...groupProcesses(dir)]);
  const each = Math.max(available, parts) / count / 2 ** 20;
  const [first, last] = [durations.slice(0, compared), durations.slice(-compared)].map(figures);
  const deleteRate = await rate((index) => service.remove(user, ids[index]!));
  return [
    {
      name: `start of ${count} sandboxes`,
      unit: "per s",
      figures: single(startRate),
      floor: { name: "bare crun run, one by one", figures: single(floor.starts) },
      target: ">= 50 per s",
      met: startRate >= 50,
    },
    {
      name: `the last ${compared} of ${count} starts`,
      unit: "ms",
      figures: last!,
      floor: { name: `the first ${compared} of them`, figures: first! },
      target: "<= 1.5 x floor",
      met: last!.p50 <= 1.5 * first!.p50,
    },
    {
      name: `memory of each of ${count} idle sandboxes, server included`,
      unit: "MB",
      figures: single(each),
      target: "<= 1.5 MB",
      met: each <= 1.5,
    },
    {
      name: `deletion of ${count} sandboxes`,
      unit: "per s",
      figures: single(deleteRate),
      floor: { name: "bare crun delete, one by one", figures: single(floor.ends) },
      target: ">= 50 per s",
      met: deleteRate >= 50,
    },
  ];
}

/** Host ids of the processes of all sandboxes. */
function groupProcesses(dir: string): number[] {
  const all = groups(dir).flatMap((folder) =>
    readFileSync(join(folder, "cgroup.procs"), "latin1").trim().split("\n"),
  );
  return [...new Set(all)].filter(Boolean).map(Number);
}

/** Times per second that some work was done `count` times. */
async function rate(work: (index: number) => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await spread(count, atOnce, work);
  return (count * 1_000) / (performance.now() - began);
}

function perSecond(durations: number[]): number {
  return (durations.length * 1_000) / durations.reduce((sum, one) => sum + one, 0);
}
