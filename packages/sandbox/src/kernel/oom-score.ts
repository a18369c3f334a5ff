import { readFileSync, writeFileSync } from "node:fs";

/** CAP_SYS_RESOURCE as a bit of a capability set. */
const resourceCapability = 1n << 24n;

/**
 * True when a score that this process sets for another is also the lowest that the other and its
 * descendants can give themselves. A user namespace never has this right.
 */
export function canFixOomScores(): boolean {
  const effective = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1];
  const isInitial = /^ {0,20}0 {1,20}0 {1,20}4294967295$/m.test(readFileSync("/proc/self/uid_map", "latin1"));
  return isInitial && (BigInt(`0x${effective ?? "0"}`) & resourceCapability) !== 0n;
}

/**
 * Sets the out-of-memory score of a process that this one has just started, and of the children
 * that it may have started meanwhile. A process that has ended is fine.
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
