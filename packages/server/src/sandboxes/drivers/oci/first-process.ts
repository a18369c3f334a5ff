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
  while (groupMembers(group).some((pid) => isRuntime(pid, basename(runtimePath)))) {
    if (Date.now() > end) return false;
    await delay(1);
  }
  return true;
}

/** The runtime itself, or the sealed copy in memory that it runs from. */
function isRuntime(pid: number, name: string): boolean {
  try {
    const program = readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, "");
    return program.startsWith("/memfd:") || basename(program) === name;
  } catch {
    return false;
  }
}
