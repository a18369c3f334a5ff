import { readlinkSync } from "node:fs";
import { basename } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { groupMembers } from "./cgroups.ts";

/**
 * Waits until the first process of a control group runs its own program. A runtime answers while it is still making that process ready;
 * a command that enters before is refused. Gives false when it does not get there within `patienceMs`; a group without processes is there.
 */
export async function firstProcessRuns(group: string, runtimePath: string, patienceMs = 5_000): Promise<boolean> {
  const end = Date.now() + patienceMs;
  while (!isReady(groupMembers(group), basename(runtimePath))) {
    if (Date.now() > end) return false;
    await delay(1);
  }
  return true;
}

function isReady(pids: number[], runtime: string): boolean {
  if (pids.length === 0) return true;
  // A runtime's helper that has just ended has no program any more; it tells nothing.
  const programs = pids.map(programOf).filter((program) => program !== undefined);
  return programs.length > 0 && !programs.some((program) => isRuntime(program, runtime));
}

/** A runtime protects itself by running from a sealed copy: one in memory (`/memfd:…`), or a mount of a single file that has no path (`/`). */
function isRuntime(program: string, runtime: string): boolean {
  return program === "/" || program.startsWith("/memfd:") || basename(program) === runtime;
}

/** Path of a process's program. */
function programOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, "");
  } catch {
    return undefined;
  }
}
