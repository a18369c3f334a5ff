import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { listPids, sendSignal } from "../../common/processes.ts";

/** Time for an orphaned start to end by itself, ms. */
const graceMs = 5_000;

/**
 * Waits until no runtime starts a container for this state folder any more, and kills one that does
 * not end. A killed server leaves its runtime running, and no server would own the container.
 */
export async function killOrphanedStarts(stateFolder: string): Promise<void> {
  const end = Date.now() + graceMs;
  for (let pids = findStarts(stateFolder); pids.length > 0; pids = findStarts(stateFolder)) {
    if (Date.now() > end) for (const pid of pids) sendSignal(pid, "SIGKILL");
    await delay(10);
  }
}

function findStarts(stateFolder: string): number[] {
  return listPids().filter((pid) => {
    const words = commandLine(pid);
    const root = words.indexOf("--root");
    return root !== -1 && words[root + 1] === stateFolder && words[root + 2] === "run";
  });
}

function commandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch {
    return [];
  }
}
