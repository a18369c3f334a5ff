import { readdirSync, readFileSync } from "node:fs";
import { kill } from "node:process";
import { setTimeout as delay } from "node:timers/promises";

/** How long a start that a killed server left behind may take to end by itself, ms. */
const patienceMs = 5_000;

/**
 * Waits until no runtime is still starting a container for this state folder: a server that is killed leaves its runtime running,
 * and what that brings up afterwards would belong to nobody. One that does not end is killed.
 */
export async function endStrayStarts(stateFolder: string): Promise<void> {
  const end = Date.now() + patienceMs;
  for (let pids = strays(stateFolder); pids.length > 0; pids = strays(stateFolder)) {
    if (Date.now() > end) for (const pid of pids) killIfThere(pid);
    await delay(10);
  }
}

function strays(stateFolder: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const words = commandLine(pid);
      const root = words.indexOf("--root");
      return root !== -1 && words[root + 1] === stateFolder && words[root + 2] === "run";
    })
    .map(Number);
}

function commandLine(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}

function killIfThere(pid: number): void {
  try {
    kill(pid, "SIGKILL");
  } catch {
    // It has just ended.
  }
}
