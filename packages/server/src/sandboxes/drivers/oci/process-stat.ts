import { readFileSync } from "node:fs";

/** The fields of /proc/<pid>/stat after the name: state, parent, process group, session, terminal, … Throws when there is no such process. */
export function statFields(pid: number): string[] {
  const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
}
