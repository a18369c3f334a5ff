import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { basename } from "node:path";
import { createInterface } from "node:readline";

export interface Result {
  client: string;
  version: string;
  check: string;
  result: "passed" | "failed" | "absent";
  detail: string;
  seconds: number;
}

export interface Runner {
  client: string;
  version: string;
  /** Program and first arguments; the paths of the checks follow. */
  command: readonly string[];
  env: NodeJS.ProcessEnv;
  /** File that gets what the checks print. */
  log: string;
  /** How long one check may take, ms. */
  timeoutMs: number;
  onResult(result: Result): void;
}

/** How long a process may load its client, ms. */
const startMs = 180_000;

type Report = { begins?: string; check?: string } & Partial<Result>;

/**
 * Runs checks in one process, which reports each as a line of JSON. A check that hangs, or that
 * ends the process, has failed, and a new process runs those after it.
 */
export async function runChecks(runner: Runner, checks: readonly string[]): Promise<void> {
  for (let left = [...checks]; left.length > 0; ) {
    const seen = await runSome(runner, left);
    left = left.filter((path) => !seen.has(nameOf(path)));
  }
}

/** Runs checks until one breaks the process. Returns the names of those that have a result. */
async function runSome(
  { client, version, command, env, log, timeoutMs, onResult }: Runner,
  checks: readonly string[],
): Promise<Set<string>> {
  const output = openSync(log, "a");
  const [program, ...first] = command;
  const child = spawn(program!, [...first, ...checks], {
    env,
    stdio: ["ignore", "pipe", output],
    detached: true,
  });
  closeSync(output);
  const end = () => process.kill(-child.pid!, "SIGKILL");
  process.once("exit", end);
  const seen = new Set<string>();
  const report = (result: Omit<Result, "client" | "version">) => {
    seen.add(result.check);
    onResult({ client, version, ...result });
  };
  let current: string | undefined = nameOf(checks[0]!);
  let timedOut = false;
  const kill = () => {
    timedOut = true;
    end();
  };
  let timer = setTimeout(kill, startMs);
  for await (const line of createInterface({ input: child.stdout! })) {
    const said = JSON.parse(line) as Report;
    if (said.begins) current = said.begins;
    if (said.check) {
      report(said as Result);
      current = undefined;
    }
    clearTimeout(timer);
    timer = setTimeout(kill, timeoutMs);
  }
  clearTimeout(timer);
  process.off("exit", end);
  const detail = timedOut ? `did not end within ${timeoutMs / 1000} s` : "ended the process";
  if (current !== undefined)
    report({ check: current, result: "failed", detail, seconds: timedOut ? timeoutMs / 1000 : 0 });
  return seen;
}

export function nameOf(path: string): string {
  return basename(path).replace(/\.\w+$/, "");
}
