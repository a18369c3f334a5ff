import { readdirSync, readFileSync } from "node:fs";

/** Set in the field of flags of a process that is ending. */
const exiting = 0x4;

/**
 * Whether there is a process of that id that has not begun to end. One that has ended may stay in the list for as long as nobody takes notice;
 * one whose first thread alone has ended looks like it, but for the number of its threads.
 */
export function isAlive(pid: number): boolean {
  try {
    const fields = statFields(pid);
    const ended = "ZX".includes(fields[0]!) || (Number(fields[6]) & exiting) !== 0;
    return !ended || Number(fields[17]) > 1;
  } catch {
    return false;
  }
}

/** Whether no thread of a process runs: it was stopped, is traced, or has ended. */
export function isStill(pid: number): boolean {
  try {
    const state = statFields(pid)[0]!;
    if (!"ZX".includes(state)) return "Tt".includes(state);
    return readdirSync(`/proc/${pid}/task`).every((thread) =>
      "TtZX".includes(statFields(`${pid}/task/${thread}`)[0]!),
    );
  } catch {
    return true;
  }
}

/** The fields of /proc/<pid>/stat (of a thread: <pid>/task/<thread>) after the name: state, parent, process group, session, terminal, … Throws when there is no such process. */
export function statFields(pid: number | string): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}
