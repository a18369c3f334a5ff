import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { BareRuntime } from "./bare-runtime.ts";
import { type Figures, figures, inTurn, type Row } from "./measure.ts";
import { type BenchService, openBenchService, started, user } from "./sandbox-service.ts";
import { TimedShell } from "./timed-shell.ts";

const rounds = 20;

/** Pause, resume, hibernation, snapshot and fork as a server does them, with records and egress. */
export async function benchLifecycle(): Promise<Row[]> {
  const shell = new TimedShell();
  const bench = await openBenchService();
  try {
    const id = await started(bench.service);
    const bare = new BareRuntime(bench, shell, id);
    try {
      return [
        ...(await pauseAndResume(bench, shell, bare)),
        await wake(bench, bare),
        await snapshotAndFork(bench, shell, 0),
        await snapshotAndFork(bench, shell, 1_024),
      ];
    } finally {
      await bare.end();
    }
  } finally {
    shell.close();
    await bench.end();
  }
}

function under(limit: number, name: string, own: Figures, floorName: string, floor: Figures): Row {
  const target = `< ${limit} ms`;
  return {
    name,
    unit: "ms",
    figures: own,
    floor: { name: floorName, figures: floor },
    target,
    met: own.p50 < limit,
  };
}

async function pauseAndResume(
  { service }: BenchService,
  shell: TimedShell,
  bare: BareRuntime,
): Promise<Row[]> {
  const id = await started(service);
  bare.prepare("frozen");
  await bare.run("frozen");
  const group = `/sys/fs/cgroup/freezer${bare.groupOf("frozen")}/freezer.state`;
  const write = (word: string) =>
    `echo ${word} >${group}; until read -r now <${group}; [ "$now" = ${word} ]; do :; done`;
  const [pause, resume, freeze, thaw] = await inTurn(rounds * 2, [
    () => service.pause(user, id),
    () => service.resume(user, id),
    () => shell.time(write("FROZEN")),
    () => shell.time(write("THAWED")),
  ]);
  await service.remove(user, id);
  return [
    under(3, "pause", figures(pause!), "write of the freezer", figures(freeze!)),
    under(3, "resume", figures(resume!), "write of the freezer", figures(thaw!)),
  ];
}

/** Time from the use of a hibernated sandbox until it is usable. */
async function wake(bench: BenchService, bare: BareRuntime): Promise<Row> {
  const { service } = bench;
  const id = await started(service);
  const [ours, floor] = await inTurn(rounds, [
    async () => {
      await bench.hibernate([id]);
      const began = performance.now();
      await service.running(id);
      return performance.now() - began;
    },
    async (index) => {
      bare.prepare(`wake${index}`);
      return bare.run(`wake${index}`);
    },
  ]);
  await service.remove(user, id);
  await bare.end();
  return under(30, "wake of a hibernated sandbox", figures(ours!), "bare crun run", figures(floor!));
}

/** Time from the call on a running sandbox until its fork can be used. */
async function snapshotAndFork(
  { service, dir }: BenchService,
  shell: TimedShell,
  megabytes: number,
): Promise<Row> {
  const id = await started(service);
  const sandbox = await service.running(id);
  const { code } = await runToEnd(sandbox, {
    argv: ["sh", "-c", `head -c ${megabytes}M /dev/zero >large; sync`],
  });
  if (code !== 0) throw new Error(`a file of ${megabytes} MB could not be made`);
  const [ours, floor] = await inTurn(rounds, [
    async () => {
      const began = performance.now();
      const snapshot = await service.snapshots.create(user, id);
      const fork = await started(service, snapshot.id);
      const took = performance.now() - began;
      const { stdout } = await runToEnd(await service.running(fork), { argv: ["stat", "-c", "%s", "large"] });
      if (Number(stdout) !== megabytes * 2 ** 20) throw new Error(`the fork has ${stdout} bytes`);
      await service.remove(user, fork);
      await service.snapshots.remove(user, snapshot.id);
      return took;
    },
    async () => overlayMount(dir, shell),
  ]);
  await service.remove(user, id);
  const name = `snapshot + fork of ${megabytes === 0 ? "an empty filesystem" : "a 1 GB filesystem"}`;
  return under(50, name, figures(ours!), "overlay mount", figures(floor!));
}

async function overlayMount(dir: string, shell: TimedShell): Promise<number> {
  const folder = join(dir, "overlay");
  const [lower, upper, work, target] = ["lower", "upper", "work", "target"].map((name) => join(folder, name));
  for (const path of [lower!, upper!, work!, target!]) mkdirSync(path, { recursive: true });
  const took = await shell.time(
    `mount -t overlay -o lowerdir=${lower},upperdir=${upper},workdir=${work} overlay ${target}`,
  );
  await shell.time(`umount ${target}`);
  return took;
}
