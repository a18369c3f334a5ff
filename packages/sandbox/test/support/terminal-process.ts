import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import type { PreparedSpec, SandboxDriver } from "../../src/driver.ts";
import {
  KubernetesDriver,
  type KubernetesDriverOptions,
} from "../../src/drivers/kubernetes/kubernetes-driver.ts";
import { OciDriver } from "../../src/drivers/oci/oci-driver.ts";
import type { Sandbox } from "../../src/sandbox.ts";
import { openTerminal } from "../../src/shell/terminal.ts";

/** Task of a process that `startTerminalProcess` starts. */
export interface TerminalOrder {
  dir: string;
  id: string;
  spec: PreparedSpec;
  held: { folder: string; epoch: number };
  command: string;
  callId: string;
  timeout?: number;
  /** Options of the kubernetes driver without its folder; undefined: the process uses oci. */
  kubernetes?: Pick<KubernetesDriverOptions, "kubeconfig" | "installation" | "runtimeClass">;
}

/**
 * Starts a process that runs a command in a terminal of a sandbox, as a server does. The process
 * prints lines: `out TEXT` (JSON) for output, `end OBSERVATION`, and `error MESSAGE`.
 */
export function startTerminalProcess(order: TerminalOrder): {
  child: ChildProcess;
  lines: AsyncGenerator<string>;
} {
  const child = spawn(process.execPath, [import.meta.filename, JSON.stringify(order)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return { child, lines: readLines(child) };
}

/** Kills the process and waits for its end. */
export async function killProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

async function* readLines(child: ChildProcess): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of child.stdout!) {
    const lines = (rest + String(chunk)).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}

/** Makes a handle of a sandbox of a driver. */
export function openSandbox(driver: SandboxDriver, id: string, spec: PreparedSpec): Sandbox {
  return { id, incarnation: "1", spec, shell: driver.shell, exec: (command) => driver.exec(id, command) };
}

async function serve(order: TerminalOrder): Promise<void> {
  const { dir, id, spec, held, command, callId, timeout, kubernetes } = order;
  process.stdout.on("error", () => {});
  const driver = kubernetes ? new KubernetesDriver({ dir, ...kubernetes }) : new OciDriver({ dir });
  await driver.open();
  const terminal = openTerminal(openSandbox(driver, id, spec), { held });
  const say = (kind: string, value: unknown) => process.stdout.write(`${kind} ${JSON.stringify(value)}\n`);
  try {
    const action = { kind: "TerminalAction", command, is_input: false, reset: false, timeout } as const;
    const call = { id: callId, isRepeated: false };
    const signal = new AbortController().signal;
    say("end", await terminal.run(action, signal, (text) => say("out", text), call));
  } catch (error) {
    say("error", String(error));
  }
}

if (process.argv[1] === import.meta.filename) await serve(JSON.parse(process.argv[2]!));
