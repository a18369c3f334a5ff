import { lchownSync } from "node:fs";
import { statFields } from "../../common/process-stat.ts";

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
      if (tty)
        await this.#run(["stty", "-F", tty, "cols", String(cols), "rows", String(rows)]).catch(() => {});
    }
    this.#busy = false;
  }
}

/**
 * Gives a process's terminal to a user of the host (a mapped one). crun leaves it to the sandbox's root, and then opening `/dev/stderr` fails.
 * Nothing on the way can be a planted link: only the sandbox's root may write in its /dev.
 */
export function ownTerminal(pid: number, uid: number): void {
  try {
    lchownSync(`/proc/${pid}/root${terminalOf(pid)}`, uid, -1);
  } catch {
    // The process has ended.
  }
}

/** Path inside the sandbox of a process's controlling terminal; undefined when it has none (any more). */
function terminalOf(pid: number): string | undefined {
  try {
    const device = Number(statFields(pid)[4]);
    // Kernel form of a device number: minor 0-7, major 8-19, rest of the minor 20-31. A pseudo-terminal is named after its minor.
    const major = (device >> 8) & 0xfff;
    return major >= 136 && major <= 143
      ? `/dev/pts/${(device & 0xff) | ((device >>> 12) & 0xfff00)}`
      : undefined;
  } catch {
    return undefined;
  }
}
