import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { SandboxDriver } from "../packages/server/src/sandboxes/driver.ts";
import { OciDriver } from "../packages/server/src/sandboxes/drivers/oci/oci-driver.ts";
import { hostSpec } from "../packages/server/src/sandboxes/specs.ts";
import { openTerminal } from "../packages/server/src/sandboxes/terminal.ts";
import { figures, type Row, sample } from "./measure.ts";
import { allProcesses, kernelMemory, proportionalMemory } from "./process.ts";

const spec = hostSpec({ memoryBytes: 2 * 2 ** 30, pids: 512, cpus: 2, diskBytes: 2 ** 30 });
const starts = 40;
const warmUps = 3;

/** Start, exec, terminal and memory of sandboxes by the `oci` driver, beside the bare runtime on the same bundles. */
export async function benchSandboxes(): Promise<Row[]> {
  const dir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
  const driver = new OciDriver({ dir, runtime: process.env.SANDPIPER_RUNTIME });
  await driver.open();
  try {
    return [
      await startToOutput(driver, dir),
      ...(await pauseAndResume(driver, dir)),
      await terminalCall(driver),
      await idleMemory(driver),
    ];
  } finally {
    for (const { id } of await driver.list()) await driver.remove(id);
    await driver.close();
    rmSync(dir, { recursive: true, force: true });
  }
}

async function startToOutput(driver: OciDriver, dir: string): Promise<Row> {
  const limit = driver.runtime.kind === "crun" ? 20 : 40;
  // The floor runs on bundles of the same make, whose containers are taken away before.
  for (let index = 0; index < starts + warmUps; index++) {
    await driver.start({ id: `bare-${index}`, spec });
    spawnSync(driver.runtime.path, ["--root", join(dir, "state"), "delete", "--force", `bare-${index}`]);
  }
  const ours: number[] = [];
  const floor: number[] = [];
  // In turn, so that a busy moment of the machine meets both. Nothing is removed meanwhile: taking control groups away is work that
  // the kernel finishes later, in the time of whoever comes next.
  for (let index = 0; index < starts + warmUps; index++) {
    const took = await ownStart(driver, `own-${index}`);
    const bare = bareStart(driver, dir, `bare-${index}`);
    if (index < warmUps) continue;
    ours.push(took);
    floor.push(bare);
  }
  for (const { id } of await driver.list()) await driver.remove(id);
  const [own, bare] = [figures(ours), figures(floor)];
  return {
    name: `sandbox start to first output (${driver.runtime.kind})`,
    unit: "ms",
    figures: own,
    floor: { name: `${driver.runtime.kind} run + exec`, figures: bare },
    target: `<= 2.5 x floor, < ${limit} ms`,
    met: own.p50 <= 2.5 * bare.p50 && own.p50 < limit,
  };
}

async function ownStart(driver: OciDriver, id: string): Promise<number> {
  const start = performance.now();
  await driver.start({ id, spec });
  const child = await driver.exec(id, { argv: ["echo", "ready"] });
  await once(child.stdout, "data");
  const took = performance.now() - start;
  await child.exit;
  return took;
}

/** The same by the runtime's own command line, on a bundle that is there already. Gives ms. */
function bareStart(driver: OciDriver, dir: string, id: string): number {
  const { path } = driver.runtime;
  const bundle = join(dir, "bundles", id);
  const root = ["--root", join(dir, "state")];
  const config = JSON.parse(readFileSync(join(bundle, "config.json"), "utf8"));
  const processFile = join(bundle, "bench-exec.json");
  writeFileSync(processFile, JSON.stringify({ ...config.process, terminal: false, args: ["echo", "ready"] }));
  const log = openSync(join(bundle, "bench.log"), "w");
  const start = performance.now();
  const run = spawnSync(path, [...root, "run", "--detach", "--bundle", bundle, id], { stdio: ["ignore", log, log] });
  const exec = spawnSync(path, [...root, "exec", "--process", processFile, id], { encoding: "utf8" });
  const took = performance.now() - start;
  closeSync(log);
  if (run.status !== 0 || exec.stdout !== "ready\n") {
    throw new Error(`the bare runtime failed: ${readFileSync(join(bundle, "bench.log"), "utf8")} ${exec.stderr}`);
  }
  return took;
}

async function pauseAndResume(driver: OciDriver, dir: string): Promise<Row[]> {
  await driver.start({ id: "pausing", spec });
  const { path } = driver.runtime;
  const bare = (verb: string) => async () => void spawnSync(path, ["--root", join(dir, "state"), verb, "pausing"]);
  const ours: number[] = [];
  const floor: number[] = [];
  for (let index = 0; index < 20; index++) {
    ours.push(...(await sample(1, async () => pauseResume(driver), 0)));
    floor.push(...(await sample(1, async () => bare("pause")().then(bare("resume")), 0)));
  }
  await driver.remove("pausing");
  const [own, bareFigures] = [figures(ours), figures(floor)];
  return [
    {
      name: "pause + resume",
      unit: "ms",
      figures: own,
      floor: { name: `${driver.runtime.kind} pause + resume`, figures: bareFigures },
      target: "<= 1.5 x floor",
      met: own.p50 <= 1.5 * bareFigures.p50,
    },
  ];
}

async function pauseResume(driver: SandboxDriver): Promise<void> {
  await driver.pause("pausing");
  await driver.resume("pausing");
}

async function terminalCall(driver: SandboxDriver): Promise<Row> {
  await driver.start({ id: "terminal", spec });
  const terminal = openTerminal({ id: "terminal", incarnation: "1", spec, exec: (command) => driver.exec("terminal", command) });
  const action = { kind: "TerminalAction", command: "true", is_input: false, reset: false } as const;
  const ours = await sample(200, async () => {
    const { exit_code } = await terminal.run(action, AbortSignal.timeout(10_000));
    if (exit_code !== 0) throw new Error(`true ended with ${exit_code}`);
  });
  terminal.close();
  await driver.remove("terminal");
  const own = figures(ours);
  return {
    name: "terminal tool call: true",
    unit: "ms",
    figures: own,
    floor: { name: "true in a bare shell over pipes", figures: figures(await bareShell()) },
    target: "< 10 ms",
    met: own.p50 < 10,
  };
}

async function bareShell(): Promise<number[]> {
  const shell = spawn("bash", ["--norc", "--noprofile"], { stdio: ["pipe", "pipe", "ignore"] });
  const durations = await sample(200, async () => {
    shell.stdin.write("true; echo $?\n");
    await once(shell.stdout, "data");
  });
  shell.stdin.end();
  return durations;
}

/** What 100 sandboxes hold: their processes (shared pages counted in part) and what the kernel keeps for them. */
async function idleMemory(driver: SandboxDriver): Promise<Row> {
  const count = 100;
  const old = new Set(allProcesses());
  const kernelBefore = kernelMemory();
  for (let index = 0; index < count; index++) await driver.start({ id: `idle-${index}`, spec });
  const own = allProcesses().filter((pid) => !old.has(pid));
  const used = (proportionalMemory(own) + kernelMemory() - kernelBefore) / 2 ** 20;
  for (let index = 0; index < count; index++) await driver.remove(`idle-${index}`);
  return {
    name: `memory of ${count} idle sandboxes (processes and kernel)`,
    unit: "MB",
    figures: { p50: used, p95: used, samples: 1 },
    target: "< 300 MB",
    met: used < 300,
  };
}
