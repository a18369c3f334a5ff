import { readdirSync, readFileSync } from "node:fs";
import { kill } from "node:process";

/** PF_EXITING in the flags of a process. */
const exitingFlag = 0x4;

/** Ids of all processes that this machine's /proc shows. */
export function listPids(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);
}

/**
 * True when the process exists and is not ending. A zombie whose first thread alone has ended
 * still has other threads and counts as alive.
 */
export function isAlive(pid: number): boolean {
  try {
    const fields = readStatFields(pid);
    const ended = "ZX".includes(fields[0]!) || (Number(fields[6]) & exitingFlag) !== 0;
    return !ended || Number(fields[17]) > 1;
  } catch {
    return false;
  }
}

/** True when no thread of the process runs: it is stopped, traced, or has ended. */
export function isStopped(pid: number): boolean {
  try {
    const state = readStatFields(pid)[0]!;
    if (!"ZX".includes(state)) return "Tt".includes(state);
    return readdirSync(`/proc/${pid}/task`).every((thread) =>
      "TtZX".includes(readStatFields(`${pid}/task/${thread}`)[0]!),
    );
  } catch {
    return true;
  }
}

/** True for the first process of a process id namespace. */
export function isNamespaceInit(pid: number): boolean {
  try {
    return /^NSpid:.*\s1$/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
}

/**
 * The fields of /proc/<pid>/stat (of a thread: <pid>/task/<thread>) after the name: state, parent,
 * process group, session, terminal, … Throws when the process does not exist.
 */
export function readStatFields(pid: number | string): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}

/** Signals a process (a process group when `target` is negative). False when it has ended. */
export function sendSignal(target: number, signal: NodeJS.Signals): boolean {
  try {
    return kill(target, signal);
  } catch {
    return false;
  }
}

/**
 * Start time of a process in clock ticks, by which it differs from a later one with the same id.
 * Undefined when the process has ended or is ending.
 */
export function getStartTime(pid: number): string | undefined {
  try {
    return isAlive(pid) ? readStatFields(pid)[19] : undefined;
  } catch {
    return undefined;
  }
}

/** Kills processes and all their descendants. */
export function killFamily(pids: readonly number[]): void {
  // A stopped process makes no new one between the look and the kill.
  for (const pid of pids) sendSignal(pid, "SIGSTOP");
  for (const pid of listFamily(pids)) sendSignal(pid, "SIGKILL");
}

/** The processes with all their descendants. */
function listFamily(pids: readonly number[]): Set<number> {
  const parents = new Map(listPids().map((pid) => [pid, readParent(pid)]));
  const family = new Set(pids);
  for (let size = 0; size < family.size; ) {
    size = family.size;
    for (const [pid, parent] of parents) if (parent !== undefined && family.has(parent)) family.add(pid);
  }
  return family;
}

function readParent(pid: number): number | undefined {
  try {
    return Number(readStatFields(pid)[1]);
  } catch {
    return undefined;
  }
}
