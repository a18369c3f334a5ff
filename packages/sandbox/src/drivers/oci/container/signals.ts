import { kill } from "node:process";
import { statFields } from "../../common/process-stat.ts";

/** How long after SIGKILL a runtime that does not end is ended itself, ms. A frozen process cannot die, its runtime can. */
const patienceMs = 1_000;

/** The same for one whose process does not run yet, ms: it is given the time to start. */
const startMs = 5_000;

/**
 * Sends signals to the process of one exec by its host process id; SIGKILL to its whole process group,
 * so that a script takes along what it waits for. The id stays valid while the runtime lives: it is the one that reaps it.
 */
export class Signals {
  /** Signals that were really sent. */
  readonly sent = new Set<NodeJS.Signals>();
  readonly #started: Promise<number | undefined>;
  readonly #endRuntime: () => void;
  readonly #runtimePid: number | undefined;
  #ended = false;
  #startTimer: NodeJS.Timeout | undefined;
  #timer: NodeJS.Timeout | undefined;

  /** `runtimePid` is the runtime's own process, which leads a group too. */
  constructor(started: Promise<number | undefined>, runtimePid: number | undefined, endRuntime: () => void) {
    this.#runtimePid = runtimePid;
    this.#started = started;
    this.#endRuntime = endRuntime;
  }

  /** Waits until the process runs, so a signal is never lost to an early call. */
  send(signal: NodeJS.Signals = "SIGKILL"): void {
    // In a sandbox that was frozen meanwhile it never does.
    if (signal === "SIGKILL") this.#startTimer ??= setTimeout(this.#endRuntime, startMs).unref();
    void this.#started.then((pid) => {
      if (pid === undefined || this.#ended) return;
      clearTimeout(this.#startTimer);
      try {
        kill(signal === "SIGKILL" ? groupTarget(pid, this.#runtimePid) : pid, signal);
        this.sent.add(signal);
      } catch {
        // It has just ended.
      }
      if (signal === "SIGKILL") this.#timer ??= setTimeout(this.#endRuntime, patienceMs).unref();
    });
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#startTimer);
    clearTimeout(this.#timer);
  }
}

/** The process group of a sandbox's process as a target for `kill`; the process alone when it is still in the runtime's group. */
function groupTarget(pid: number, runtimePid: number | undefined): number {
  const group = Number(statFields(pid)[2]);
  return group > 1 && runtimePid !== undefined && group !== runtimePid ? -group : pid;
}
