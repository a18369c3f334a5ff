import { closeSync, constants, openSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { tryLockFile } from "../../../kernel/file-lock.ts";

const { O_RDWR, O_CREAT, O_NOFOLLOW } = constants;
/** Maximum wait of a fetch for the removal of blobs, which takes milliseconds, ms. */
const maxWaitMs = 10_000;
/** Delay between two attempts to take the lock, ms. */
const pollMs = 20;

/**
 * Keeps the blobs of images that are being fetched. All fetches share the lock, and blobs are
 * removed only when no fetch has it. Each result is a descriptor; closing it releases the lock.
 */
export class BlobsLock {
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
  }

  /**
   * Takes the lock for a fetch; undefined when a process that removes blobs stands still. Throws
   * the signal's reason.
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

  /** Takes the lock for the removal of blobs; undefined while there are fetches. */
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
