import { readStatFields, sendSignal } from "../../common/processes.ts";

/** Wait after SIGKILL before the runtime is killed, ms: frozen processes cannot die. */
const killTimeoutMs = 1_000;
/** The same for a process that has not started yet, ms. */
const startTimeoutMs = 5_000;

/**
 * Sends signals to the process of one exec by its host process id; SIGKILL goes to the whole
 * process group, so that it also ends what a script waits for. The id stays valid while the runtime
 * runs, because the runtime reaps the process.
 */
export class Signals {
  /** Signals that were delivered. */
  readonly sent = new Set<NodeJS.Signals>();
  readonly #started: Promise<number | undefined>;
  readonly #endRuntime: () => void;
  readonly #runtimePid: number | undefined;
  #ended = false;
  #startTimer: NodeJS.Timeout | undefined;
  #killTimer: NodeJS.Timeout | undefined;

  /** `runtimePid` is the runtime's own process, which also leads a group. */
  constructor(started: Promise<number | undefined>, runtimePid: number | undefined, endRuntime: () => void) {
    this.#runtimePid = runtimePid;
    this.#started = started;
    this.#endRuntime = endRuntime;
  }

  /** Waits until the process runs, so that an early signal is not lost. */
  send(signal: NodeJS.Signals = "SIGKILL"): void {
    // In a frozen sandbox the process never starts.
    if (signal === "SIGKILL") this.#startTimer ??= setTimeout(this.#endRuntime, startTimeoutMs).unref();
    void this.#started.then((pid) => {
      if (pid === undefined || this.#ended) return;
      clearTimeout(this.#startTimer);
      const isKill = signal === "SIGKILL";
      if (sendSignal(isKill ? this.#groupTarget(pid) : pid, signal)) this.sent.add(signal);
      if (isKill) this.#killTimer ??= setTimeout(this.#endRuntime, killTimeoutMs).unref();
    });
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#startTimer);
    clearTimeout(this.#killTimer);
  }

  /** The process group; the process alone when it has ended or is still in the runtime's group. */
  #groupTarget(pid: number): number {
    try {
      const group = Number(readStatFields(pid)[2]);
      return group > 1 && this.#runtimePid !== undefined && group !== this.#runtimePid ? -group : pid;
    } catch {
      return pid;
    }
  }
}
