import { CliError, exitCodes } from "./errors.ts";
import { onStop } from "./signals.ts";

/**
 * What Ctrl-C, SIGTERM and SIGHUP do to a command: the first one aborts `signal`, or calls `gently`
 * when that is set; the second one ends the process.
 */
export class Interruption {
  /** Stops work that can be stopped instead of aborting all of it. */
  gently: (() => void) | undefined;
  #happened = false;
  readonly #abort = new AbortController();
  readonly #restore: () => void;

  constructor() {
    this.#restore = onStop(() => {
      this.#happened = true;
      if (this.gently) this.gently();
      else this.abort(new CliError("Interrupted.", { exitCode: exitCodes.interrupted }));
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  get happened(): boolean {
    return this.#happened;
  }

  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  /**
   * Runs the whole command. An interruption that aborts it is its only error, whatever the programs
   * report that got the signal, too.
   */
  async during<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      this.signal.throwIfAborted();
      throw error;
    } finally {
      this.#restore();
    }
  }
}
