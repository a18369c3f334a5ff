import { readFileSync, writeFileSync } from "node:fs";

/**
 * Sets the out-of-memory score of a process that this one has just started, and of the children
 * that it may have started meanwhile. With CAP_SYS_RESOURCE (`hasResourceCapability`) it is also
 * the lowest score that these and their descendants can give themselves. A process that has ended
 * is fine.
 */
export function setOomScore(pid: number, score: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(score));
    // Children that are listed now may be older than the score of their parent.
    for (const child of readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" "))
      if (child !== "") setOomScore(Number(child), score);
  } catch {
    // It has ended, or the kernel does not list children.
  }
}

/** Raises lower scores of processes to `least`. */
export function raiseOomScores(pids: readonly number[], least: number): void {
  for (const pid of pids) {
    const path = `/proc/${pid}/oom_score_adj`;
    try {
      if (Number(readFileSync(path, "latin1")) < least) writeFileSync(path, String(least));
    } catch {
      // It has ended.
    }
  }
}
