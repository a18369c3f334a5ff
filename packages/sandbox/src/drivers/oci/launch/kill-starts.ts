import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { killFamily, listPids } from "../../common/processes.ts";

const killTimeoutMs = 5_000;

/**
 * Kills each runtime that starts a container, with its descendants, and waits until none is left.
 * The runtime of a server that has ended, or of a start that is given up, goes on by itself.
 */
export async function killStarts(stateFolder: string, id: string): Promise<void> {
  const end = performance.now() + killTimeoutMs;
  for (;;) {
    const starts = listPids().filter((pid) => isStart(pid, stateFolder, id));
    if (starts.length === 0 || performance.now() > end) return;
    killFamily(starts);
    await delay(1);
  }
}

function isStart(pid: number, stateFolder: string, id: string): boolean {
  const words = readCommandLine(pid);
  const root = words.indexOf("--root");
  return root !== -1 && words[root + 1] === stateFolder && words[root + 2] === "run" && words.at(-1) === id;
}

/** Empty for a process that has ended. */
function readCommandLine(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  } catch {
    return [];
  }
}
