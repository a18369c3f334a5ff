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
