import { readFileSync } from "node:fs";
import { hasResourceCapability } from "../../../kernel/capabilities.ts";
import { sandboxOomScore } from "../../common/isolation.ts";

/**
 * Open files of a process. Compilers, watchers and databases need thousands; all processes of a
 * sandbox together must not reach the machine's limit.
 */
export const maxOpenFiles = 16_384;

/** Signals and timers that wait for the processes of a sandbox; each takes memory of the kernel. */
export const maxPendingSignals = 2_048;
/** Size of all POSIX message queues of a sandbox, bytes: the usual limit of a user. */
export const maxQueueBytes = 819_200;

/** Limits of every process in a sandbox that depend on this machine. */
export interface ProcessLimits {
  openFiles: number;
  pendingSignals: number;
  queueBytes: number;
  /** `sandboxOomScore`, or more: a server cannot protect a process better than itself. */
  oomScore: number;
  /** False when processes can lower their score, which the server then raises from time to time. */
  oomScoreIsFixed: boolean;
}

export function readProcessLimits(): ProcessLimits {
  const own = Number(readFileSync("/proc/self/oom_score_adj", "latin1"));
  const text = readFileSync("/proc/self/limits", "utf8");
  // A server cannot give more than it has.
  const limit = (name: string, most: number) => {
    const hard = new RegExp(`^Max ${name} {1,30}\\w{1,20} {1,30}(\\w{1,20})`, "m").exec(text)?.[1];
    return hard === undefined || hard === "unlimited" ? most : Math.min(most, Number(hard));
  };
  return {
    openFiles: limit("open files", maxOpenFiles),
    pendingSignals: limit("pending signals", maxPendingSignals),
    queueBytes: limit("msgqueue size", maxQueueBytes),
    oomScore: Math.max(sandboxOomScore, own),
    oomScoreIsFixed: hasResourceCapability(),
  };
}
