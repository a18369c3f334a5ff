import { exitCodeOf, Interrupted, isAsking, onStop } from "./signals.ts";

/**
 * What Ctrl-C, SIGTERM and SIGHUP do to a command: the first one aborts `signal`, or calls `gently`
 * when that is set and no question is open; the second one ends the process.
 */
export class Interruption {
  /** Stops work that can be stopped instead of aborting all of it. */
  gently: (() => void) | undefined;
  #signal: NodeJS.Signals | undefined;
  readonly #abort = new AbortController();
  readonly #restore: () => void;

  constructor() {
    this.#restore = onStop((signal) => {
      this.#signal = signal;
      if (this.gently && !isAsking()) this.gently();
      else this.#abort.abort(this.reason);
    });
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The exit code of an interrupted command; undefined when it was not interrupted. */
  get exitCode(): number | undefined {
    return this.#signal && exitCodeOf(this.#signal);
  }

  /** What ends an interrupted command. */
  get reason(): Interrupted {
    return new Interrupted(this.#signal ?? "SIGINT");
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
      if (!(error instanceof Interrupted)) this.signal.throwIfAborted();
      throw error;
    } finally {
      this.#restore();
    }
  }
}
