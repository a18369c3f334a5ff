import { closeSync, constants, openSync } from "node:fs";
import { PlatformError } from "@sandpiper/core/errors";
import { tryLockFile } from "../../../kernel/file-lock.ts";

const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;

/** Maximum wait for the lock, ms. Work under the lock takes milliseconds unless it was stopped. */
const maxWaitMs = 5_000;
const pause = new Int32Array(new SharedArrayBuffer(4));

/**
 * Lets one of several processes do short synchronous work in a folder. The kernel releases the lock
 * when its process ends.
 */
export class FolderLock {
  readonly #file: string;
  #depth = 0;

  /** `run` creates `file` when it is missing. Its folder must exist at the first `run`. */
  constructor(file: string) {
    this.#file = file;
  }

  /** Runs work, which may call `run`. Throws SandboxFailed when another process keeps the lock. */
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
