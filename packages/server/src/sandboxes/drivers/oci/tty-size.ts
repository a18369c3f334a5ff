import { readlinkSync } from "node:fs";

/** Size of a terminal in characters. */
export interface TtySize {
  cols: number;
  rows: number;
}

/**
 * Passes changes of size on to the terminal inside a sandbox, one after the other; of several that wait only the last one counts.
 * crun before 1.8.7 gives a terminal its first size and no later one, so `run` executes `stty` in the sandbox for it.
 */
export class TtySizer {
  readonly #started: Promise<number | undefined>;
  readonly #run: (argv: string[]) => Promise<unknown>;
  #wanted: TtySize | undefined;
  #busy = false;

  constructor(started: Promise<number | undefined>, run: (argv: string[]) => Promise<unknown>) {
    this.#started = started;
    this.#run = run;
  }

  /** The terminal gets this size soon; a process that ended is fine. */
  set(size: TtySize): void {
    this.#wanted = size;
    if (!this.#busy) void this.#work();
  }

  async #work(): Promise<void> {
    this.#busy = true;
    const pid = await this.#started;
    while (this.#wanted && pid !== undefined) {
      const { cols, rows } = this.#wanted;
      this.#wanted = undefined;
      const tty = terminalOf(pid);
      if (tty) await this.#run(["stty", "-F", tty, "cols", String(cols), "rows", String(rows)]).catch(() => {});
    }
    this.#busy = false;
  }
}

/** Path inside the sandbox of a process's terminal. The process may have moved it, so only the form of a terminal's path counts. */
function terminalOf(pid: number): string | undefined {
  for (const descriptor of [0, 1, 2]) {
    try {
      const target = readlinkSync(`/proc/${pid}/fd/${descriptor}`);
      if (/^\/dev\/pts\/\d+$/.test(target)) return target;
    } catch {
      return undefined;
    }
  }
  return undefined;
}
