import { lchownSync } from "node:fs";
import type { TtySize } from "../../../kernel/pseudo-terminal.ts";
import { readStatFields } from "../../common/processes.ts";

/**
 * Passes changed sizes on to the terminal inside a sandbox, one at a time; only the last waiting
 * one counts. crun before 1.8.7 sets only the first size, so `run` executes `stty` in the sandbox.
 */
export class TtyResizer {
  readonly #started: Promise<number | undefined>;
  readonly #run: (argv: string[]) => Promise<unknown>;
  #wanted: TtySize | undefined;
  #busy = false;

  constructor(started: Promise<number | undefined>, run: (argv: string[]) => Promise<unknown>) {
    this.#started = started;
    this.#run = run;
  }

  /** Resizes soon; a process that ended is fine. */
  resize(size: TtySize): void {
    this.#wanted = size;
    if (!this.#busy) void this.#work();
  }

  async #work(): Promise<void> {
    this.#busy = true;
    const pid = await this.#started;
    while (this.#wanted && pid !== undefined) {
      const { cols, rows } = this.#wanted;
      this.#wanted = undefined;
      const tty = terminalPath(pid);
      if (tty)
        await this.#run(["stty", "-F", tty, "cols", String(cols), "rows", String(rows)]).catch(() => {});
    }
    this.#busy = false;
  }
}

/**
 * Makes a user (host id) the owner of a process's terminal. crun leaves it to the sandbox's root,
 * and then opening `/dev/stderr` fails. No planted link can redirect the path: only the sandbox's
 * root may write in its /dev.
 */
export function ownTerminal(pid: number, uid: number): void {
  try {
    lchownSync(`/proc/${pid}/root${terminalPath(pid)}`, uid, -1);
  } catch {
    // The process has ended.
  }
}

/** Path inside the sandbox of a process's controlling terminal; undefined without one. */
function terminalPath(pid: number): string | undefined {
  try {
    const device = Number(readStatFields(pid)[4]);
    // Device number: minor 0-7, major 8-19, rest of the minor 20-31. The minor names a
    // pseudo-terminal.
    const major = (device >> 8) & 0xfff;
    return major >= 136 && major <= 143
      ? `/dev/pts/${(device & 0xff) | ((device >>> 12) & 0xfff00)}`
      : undefined;
  } catch {
    return undefined;
  }
}
