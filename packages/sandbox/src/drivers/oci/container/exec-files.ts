import { randomBytes } from "node:crypto";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Where the files of one `exec` are, and who notes its runtime. */
export interface ExecPlace {
  /** Folder for short-lived files; sandboxes cannot see it. */
  folder: string;
  /** Called with the runtime's process id; returns a function that is called when it has ended. */
  note: (pid: number) => () => void;
}

/**
 * The two short-lived files of one `exec`: the process file, which holds the environment and is
 * removed as soon as the process runs, and the pid file that the runtime writes then.
 */
export class ExecFiles {
  readonly processFile: string;
  readonly pidFile: string;
  /** Resolves with the host's process id once the process runs; undefined when it never ran. */
  readonly started: Promise<number | undefined>;
  #resolve!: (pid: number | undefined) => void;
  #timer: NodeJS.Timeout | undefined;
  #settled = false;
  readonly #began = performance.now();
  readonly #note: ExecPlace["note"];
  #forget: (() => void) | undefined;

  constructor({ folder, note }: ExecPlace, process: object) {
    this.#note = note;
    const name = randomBytes(9).toString("hex");
    this.processFile = join(folder, `${name}.json`);
    this.pidFile = join(folder, `${name}.pid`);
    this.started = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    writeFileSync(this.processFile, JSON.stringify(process), { mode: 0o600 });
    this.#poll();
  }

  /** Called when the runtime begins. */
  begin(runtimePid: number): void {
    this.#forget = this.#note(runtimePid);
  }

  /** Called when the runtime has ended: removes both files. True when the process ran. */
  finish(): boolean {
    this.#forget?.();
    if (this.#settled) return true;
    const pid = this.#readPid();
    this.#settle(undefined);
    return pid !== undefined;
  }

  /** Looks again after a sixth of the time so far: a caller waits at most a sixth longer. */
  #poll(): void {
    const delay = Math.min(Math.max(1, (performance.now() - this.#began) / 6), 100);
    this.#timer = setTimeout(() => {
      const pid = this.#readPid();
      if (pid === undefined) this.#poll();
      else this.#settle(pid);
    }, delay);
    this.#timer.unref();
  }

  #settle(pid: number | undefined): void {
    this.#settled = true;
    clearTimeout(this.#timer);
    rmSync(this.processFile, { force: true });
    rmSync(this.pidFile, { force: true });
    this.#resolve(pid);
  }

  #readPid(): number | undefined {
    try {
      return Number.parseInt(readFileSync(this.pidFile, "latin1"), 10) || undefined;
    } catch {
      return undefined;
    }
  }
}
