import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";

/**
 * Starts a Node program and resolves with the first match of `pattern` in its output. `processors`
 * is a list as `taskset` takes it; default: all.
 */
export async function startProgram(
  args: string[],
  env: Record<string, string>,
  pattern: RegExp,
  processors?: string,
) {
  const command = [...(processors ? ["taskset", "--cpu-list", processors] : []), process.execPath, ...args];
  const child = spawn(command[0]!, command.slice(1), {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  const match = await new Promise<RegExpExecArray>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${args[0]} ended with ${code}: ${output}`)));
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      const found = pattern.exec(output);
      if (found) resolve(found);
    });
  });
  child.removeAllListeners("exit");
  return { child, match };
}

export async function stopProgram(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

/** Resident memory of one process, bytes. */
export function residentMemory(pid: number): number {
  return statusField(pid, "VmRSS");
}

/** Available memory of the machine, bytes. */
export function availableMemory(): number {
  return Number(/^MemAvailable:\s+(\d+) kB/m.exec(readFileSync("/proc/meminfo", "utf8"))?.[1]) * 1024;
}

/** Kernel memory for processes, mounts, namespaces, control groups and tmpfs, bytes. */
export function kernelMemory(): number {
  const text = readFileSync("/proc/meminfo", "utf8");
  const fields = ["SUnreclaim", "KernelStack", "PageTables", "Percpu", "Shmem"];
  return fields.reduce(
    (sum, name) => sum + Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(text)?.[1] ?? 0) * 1024,
    0,
  );
}

/** Proportional set size of processes (memory without the shared part of others), bytes. */
export function proportionalMemory(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    try {
      return (
        sum +
        Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, "utf8"))?.[1] ?? 0) * 1024
      );
    } catch {
      // It has just ended.
      return sum;
    }
  }, 0);
}

function statusField(pid: number, name: string): number {
  return (
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) *
    1024
  );
}
