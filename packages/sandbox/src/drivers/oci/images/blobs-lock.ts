import { closeSync, constants, openSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { tryLockFile } from "../../../kernel/file-lock.ts";

const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
/** Removing blobs takes milliseconds. */
const maxWaitMs = 10_000;
const pollMs = 20;

/**
 * Keeps the blobs of images that are being fetched: many fetches share the lock, and blobs are
 * removed only while there is none. Each result is a descriptor; closing it ends the lock.
 */
export class BlobsLock {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /**
   * For a fetch. Undefined when a process stands still in removing blobs. Throws the signal's
   * reason.
   */
  async share(signal: AbortSignal): Promise<number | undefined> {
    const end = performance.now() + maxWaitMs;
    for (;;) {
      signal.throwIfAborted();
      const fd = this.#open("shared");
      if (fd !== undefined || performance.now() > end) return fd;
      await delay(pollMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    }
  }

  /** For the removal of blobs. Undefined while there are fetches. */
  tryExclude(): number | undefined {
    return this.#open("exclusive");
  }

  #open(mode: "shared" | "exclusive"): number | undefined {
    const fd = openSync(this.#file, O_RDWR | O_CREAT | O_NOFOLLOW, 0o600);
    if (tryLockFile(fd, mode)) return fd;
    closeSync(fd);
    return undefined;
  }
}
