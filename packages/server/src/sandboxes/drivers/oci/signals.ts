import { kill } from "node:process";

/** How long after SIGKILL a runtime that does not end is ended itself, ms. A frozen process cannot die, its runtime can. */
const patienceMs = 1_000;

/**
 * Sends signals to the process of one exec by its host process id; SIGKILL also to its process group (a runtime makes the process lead one),
 * so that a script takes along what it waits for. The id stays valid while the runtime lives: it is the one that reaps it.
 */
export class Signals {
  /** Signals that were really sent. */
  readonly sent = new Set<NodeJS.Signals>();
  readonly #started: Promise<number | undefined>;
  readonly #endRuntime: () => void;
  #ended = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(started: Promise<number | undefined>, endRuntime: () => void) {
    this.#started = started;
    this.#endRuntime = endRuntime;
  }

  /** Waits until the process runs, so a signal is never lost to an early call. */
  send(signal: NodeJS.Signals = "SIGKILL"): void {
    void this.#started.then((pid) => {
      if (pid === undefined || this.#ended) return;
      try {
        kill(signal === "SIGKILL" ? -pid : pid, signal);
        this.sent.add(signal);
      } catch {
        // It has just ended.
      }
      if (signal === "SIGKILL") this.#timer ??= setTimeout(this.#endRuntime, patienceMs).unref();
    });
  }

  end(): void {
    this.#ended = true;
    clearTimeout(this.#timer);
  }
}
