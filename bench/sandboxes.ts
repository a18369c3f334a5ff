import { spawn } from "node:child_process";
import { once } from "node:events";
import type { OciDriver } from "@sandpiper/sandbox/drivers/oci/oci-driver";
import { readFile } from "@sandpiper/sandbox/files/files";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import { openTerminal } from "@sandpiper/sandbox/shell/terminal";
import { BareRuntime } from "./bare-runtime.ts";
import { figures, inTurn, type Row, sample } from "./measure.ts";
import { type BenchService, openBenchService, started } from "./sandbox-service.ts";
import { TimedShell } from "./timed-shell.ts";

/** Start, commands and files of sandboxes of the `oci` driver. */
export async function benchSandboxes(): Promise<Row[]> {
  const shell = new TimedShell();
  const bench = await openBenchService();
  try {
    const { service } = bench;
    const id = await started(service);
    const bare = new BareRuntime(bench, shell, id);
    try {
      return [
        await startToOutput(bench, bare),
        await hundredAtOnce(bench, bare),
        ...(await commands(await service.running(id), bare, shell)),
      ];
    } finally {
      await bare.end();
    }
  } finally {
    shell.close();
    await bench.end();
  }
}

/**
 * Nothing is removed during the measurement: the kernel would delete control groups during later
 * rows.
 */
async function startToOutput({ driver, spec }: BenchService, bare: BareRuntime): Promise<Row> {
  const [ours, floor] = await inTurn(40, [
    async (index) => {
      const began = performance.now();
      await driver.start({ id: `start${index}`, spec });
      const child = await driver.exec(`start${index}`, { argv: ["echo", "ready"] });
      await once(child.stdout, "data");
      const took = performance.now() - began;
      await child.exit;
      return took;
    },
    async (index) => {
      bare.prepare(`bare${index}`);
      return bare.runToOutput(`bare${index}`);
    },
  ]);
  await removeAll(driver, "start");
  await bare.end();
  const [own, bareFigures] = [figures(ours!), figures(floor!)];
  return {
    name: "sandbox start to first output",
    unit: "ms",
    figures: own,
    floor: { name: "bare crun run + exec", figures: bareFigures },
    target: "<= 2 x floor",
    met: own.p50 <= 2 * bareFigures.p50,
  };
}

/** Time from the first call until the last of 100 new sandboxes can be used. */
async function hundredAtOnce({ service }: BenchService, bare: BareRuntime): Promise<Row> {
  const own = await sample(
    3,
    async () => {
      const began = performance.now();
      const ids = await Promise.all(Array.from({ length: 100 }, () => started(service)));
      const took = performance.now() - began;
      await Promise.all(ids.map((id) => service.remove("bench", id)));
      return took;
    },
    1,
  );
  let floor = 0;
  for (let index = 0; index < 100; index++) {
    bare.prepare(`hundred${index}`);
    floor += await bare.run(`hundred${index}`);
  }
  await bare.end();
  return {
    name: "100 sandboxes at once, all ready",
    unit: "ms",
    figures: figures(own),
    floor: { name: "100 bare crun run, one by one", figures: figures([floor]) },
    target: "< 2000 ms",
    met: figures(own).p95 < 2_000,
  };
}

async function commands(sandbox: Sandbox, bare: BareRuntime, shell: TimedShell): Promise<Row[]> {
  bare.prepare("commands");
  await bare.run("commands");
  await runToEnd(sandbox, { argv: ["sh", "-c", "head -c 4096 /dev/urandom >4k"] });
  const execTrue = async () => void (await runToEnd(sandbox, { argv: ["true"] }));
  const [exec, read, host, runtime] = await inTurn(
    200,
    [execTrue, () => readFile(sandbox, "4k"), () => shell.time("/bin/true"), () => bare.execTrue("commands")],
    // The resident shell comes up behind the first commands.
    { warmUp: 25, block: 25 },
  );
  const [ofExec, ofRead] = [figures(exec!), figures(read!)];
  const execRow = {
    name: "exec of true",
    unit: "ms",
    figures: ofExec,
    target: "< 2 ms",
    met: ofExec.p50 < 2,
  } as const;
  return [
    { ...execRow, floor: { name: "fork + exec on the host", figures: figures(host!) } },
    { ...execRow, floor: { name: "bare crun exec", figures: figures(runtime!) } },
    {
      name: "file read of 4 KB",
      unit: "ms",
      figures: ofRead,
      floor: { name: "fork + exec on the host", figures: figures(host!) },
      target: "< 2 ms",
      met: ofRead.p50 < 2,
    },
    await terminalCall(sandbox),
  ];
}

async function terminalCall(sandbox: Sandbox): Promise<Row> {
  const terminal = openTerminal(sandbox);
  const action = { kind: "TerminalAction", command: "true", is_input: false, reset: false } as const;
  const ours = await sample(200, async () => {
    const { exit_code } = await terminal.run(action, AbortSignal.timeout(10_000));
    if (exit_code !== 0) throw new Error(`true ended with ${exit_code}`);
  });
  terminal.close();
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

async function removeAll(driver: OciDriver, prefix: string): Promise<void> {
  for (const { id } of await driver.list()) if (id.startsWith(prefix)) await driver.remove(id);
}
