import { closeSync, constants, openSync } from "node:fs";
import { PlatformError } from "@sandpiper/core/errors";
import { tryLockFile } from "../../../kernel/file-lock.ts";

const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;

/** Work under the lock takes milliseconds; a holder that needs longer was stopped in it. */
const maxWaitMs = 5_000;
const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Excludes the other processes that work in a folder from short synchronous work. The lock ends
 * with its process.
 */
export class FolderLock {
  readonly #file: string;
  #depth = 0;

  /** `file` is created when it is missing; its folder exists at the first `run`. */
  constructor(file: string) {
    this.#file = file;
  }

  /** Runs work that may itself call `run`. Throws SandboxFailed when another one stands still. */
  run<T>(work: () => T): T {
    const fd = this.#depth === 0 ? this.#acquire() : undefined;
    this.#depth++;
    try {
      return work();
    } finally {
      this.#depth--;
      if (fd !== undefined) closeSync(fd);
    }
  }

  #acquire(): number {
    const fd = openSync(this.#file, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    try {
      const end = performance.now() + maxWaitMs;
      while (!tryLockFile(fd, "exclusive")) {
        if (performance.now() > end) throw new PlatformError("FolderLockHeld", { file: this.#file });
        Atomics.wait(pause, 0, 0, 1);
      }
      return fd;
    } catch (error) {
      closeSync(fd);
      throw error;
    }
  }
}
