import { writeSync } from "node:fs";

/** Attempts of a write to a pipe that is full, and the time between them, ms. */
const attempts = 10;
const attemptMs = 20;

const pauses = new Int32Array(new SharedArrayBuffer(4));

/**
 * Writes log lines to a file descriptor at once. A line that cannot be written (a full disk, a
 * closed or full pipe) is lost and never an error; the next line that can be written is preceded by
 * one that says how many were lost.
 */
export class LineStream {
  readonly #fd: number;
  #lost = 0;
  #reason = "";
  /** The last write ended within a line. */
  #isCut = false;

  constructor(fd: number) {
    this.#fd = fd;
  }

  write(line: string): void {
    const text = `${this.#isCut ? "\n" : ""}${this.#lost > 0 ? this.#notice() : ""}${line}`;
    const bytes = Buffer.from(text);
    let written = 0;
    for (let attempt = 0; written < bytes.length; ) {
      try {
        written += writeSync(this.#fd, bytes, written);
      } catch (error) {
        const { code = "an error" } = error as NodeJS.ErrnoException;
        if (code === "EAGAIN" && ++attempt < attempts) {
          Atomics.wait(pauses, 0, 0, attemptMs);
          continue;
        }
        if (written > 0) this.#isCut = bytes[written - 1] !== 10;
        this.#lost += 1;
        this.#reason = code;
        return;
      }
    }
    this.#isCut = false;
    this.#lost = 0;
  }

  #notice(): string {
    const lines = this.#lost === 1 ? "1 line" : `${this.#lost} lines`;
    const record = { level: 40, time: new Date().toISOString(), reason: this.#reason };
    return `${JSON.stringify({ ...record, msg: `${lines} of the log could not be written` })}\n`;
  }
}
