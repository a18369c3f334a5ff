import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { listPids, readStatFields, sendSignal } from "../../common/processes.ts";

/** Time for an orphaned start to end by itself, ms. */
const graceMs = 5_000;
/** Maximum number of generations between a server and a process of the runtime. */
const maxGenerations = 6;

/**
 * Waits until no runtime of an ended server starts a container for this state folder, and kills a
 * runtime that does not end. A killed server leaves its runtime running, and no server would own
 * the container. `servers`: process ids of the living servers, whose starts go on.
 */
export async function killOrphanedStarts(stateFolder: string, servers: ReadonlySet<number>): Promise<void> {
  const seenAt = new Map<number, number>();
  for (;;) {
    const orphans = findStarts(stateFolder).filter((pid) => !descendsFrom(pid, servers));
    if (orphans.length === 0) return;
    for (const pid of orphans) {
      if (!seenAt.has(pid)) seenAt.set(pid, Date.now());
      if (Date.now() - seenAt.get(pid)! > graceMs) sendSignal(pid, "SIGKILL");
    }
    await delay(10);
  }
}

function descendsFrom(pid: number, ancestors: ReadonlySet<number>): boolean {
  try {
    for (let one = pid, depth = 0; one > 1 && depth < maxGenerations; depth++) {
      one = Number(readStatFields(one)[1]);
      if (ancestors.has(one)) return true;
    }
    return false;
  } catch {
    // The process has just ended, and `findStarts` does not find it again.
    return false;
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
