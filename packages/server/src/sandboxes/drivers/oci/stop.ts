import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { groupMembers, groupState, killGroup, signalGroup, thawGroup } from "./cgroups.ts";

/** How long processes may take to end by themselves, ms. */
const graceMs = 1_000;
const lookEveryMs = 5;

/**
 * Ends the processes of a control group in order, also of a frozen one: first they are asked, then they are killed.
 * Gives false when some are still there. With `init`, the first process is one that only reaps and waits for nothing.
 */
export async function stopGroup(path: string, init: boolean): Promise<boolean> {
  if (groupState(path) === "gone") return true;
  const first = groupMembers(path).filter(isFirst);
  const waits = init ? first : [];
  // An interactive shell goes by the end of its terminal alone, and one that is stopped only hears once it goes on.
  signalGroup(path, ["SIGTERM", "SIGHUP", "SIGCONT"], waits);
  thawGroup(path);
  const end = Date.now() + graceMs;
  while (Date.now() < end && groupMembers(path).some((pid) => !waits.includes(pid))) await delay(lookEveryMs);
  return killGroup(path);
}

/** Whether a process is the first one of its sandbox. */
function isFirst(pid: number): boolean {
  try {
    return /^NSpid:.*\s1$/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}
