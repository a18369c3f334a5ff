import { readFileSync } from "node:fs";

const maxOpenFiles = 65_536;

/** Limits of every process in a sandbox that depend on this machine. */
export interface ProcessLimits {
  openFiles: number;
  /** The closest possible value: a server cannot protect a process better than itself. */
  oomScoreAdj(wanted: number): number;
}

export function readProcessLimits(): ProcessLimits {
  const own = Number(readFileSync("/proc/self/oom_score_adj", "latin1"));
  const line = /^Max open files\s+\d+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
  return {
    openFiles: Math.min(maxOpenFiles, line ? Number(line[1]) : 1_024),
    oomScoreAdj: (wanted) => Math.max(wanted, own),
  };
}
