import { readFileSync } from "node:fs";
import { canFixOomScores } from "../../../kernel/oom-score.ts";
import { sandboxOomScore } from "../../common/isolation.ts";

/**
 * Open files of a process. Compilers, watchers and databases need thousands; all processes of a
 * sandbox together must not reach the machine's limit.
 */
export const maxOpenFiles = 16_384;

/** Limits of every process in a sandbox that depend on this machine. */
export interface ProcessLimits {
  openFiles: number;
  /** `sandboxOomScore`, or more: a server cannot protect a process better than itself. */
  oomScore: number;
  /** False when processes can lower their score, which the server then raises from time to time. */
  oomScoreIsFixed: boolean;
}

export function readProcessLimits(): ProcessLimits {
  const own = Number(readFileSync("/proc/self/oom_score_adj", "latin1"));
  const line = /^Max open files\s+\d+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
  return {
    openFiles: Math.min(maxOpenFiles, line ? Number(line[1]) : 1_024),
    oomScore: Math.max(sandboxOomScore, own),
    oomScoreIsFixed: canFixOomScores(),
  };
}
