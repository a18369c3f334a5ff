import { readFileSync } from "node:fs";

const mostOpenFiles = 65_536;

/** What the machine decides about every process in a sandbox. */
export interface ProcessRules {
  /** Files that a process may have open. */
  openFiles: number;
  /** What may be set: the server cannot protect a process better than it is protected itself. */
  oomScoreAdj(wanted: number): number;
}

export function processRules(): ProcessRules {
  const own = Number(readFileSync("/proc/self/oom_score_adj", "latin1"));
  return {
    openFiles: Math.min(mostOpenFiles, hardOpenFiles()),
    oomScoreAdj: (wanted) => Math.max(wanted, own),
  };
}

function hardOpenFiles(): number {
  const line = /^Max open files\s+\d+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
  return line ? Number(line[1]) : 1_024;
}
