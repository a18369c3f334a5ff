import { closeSync, ftruncateSync, openSync, statfsSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";

/** Size of the reserve on a large disk, bytes, and as a share of a small one. */
const reservedBytes = 4 * 2 ** 20;
const reservedShare = 1 / 32;
/** Room that a disk must have to count as usable after it was full, bytes. */
const usableBytes = 128 * 1024;
/** Parts in which the reserve is given away. */
const parts = 4;

/**
 * A file next to the database that keeps room on the disk for writes that delete or stop something.
 * When the disk is full, such a write frees a part of it; until all of it is back, other writes are
 * refused, which would use up what was freed.
 */
export class DiskReserve {
  readonly #fd: number;
  readonly #partBytes: number;
  #bytes = 0;
  #wasFull = false;

  /** Opens the reserve of a database and fills it as far as there is room. */
  constructor(database: string) {
    const folder = dirname(database);
    const { blocks, bsize } = statfsSync(folder);
    this.#fd = openSync(join(folder, "reserve"), "a", 0o600);
    this.#partBytes = Math.floor(Math.min(reservedBytes, blocks * bsize * reservedShare) / parts);
    ftruncateSync(this.#fd, 0);
    this.restore();
  }

  /**
   * Called when a write did not fit. A smaller one might fit, but a disk that takes only the small
   * ones would let a run begin again and again whose answers it cannot store.
   */
  noteFull(): void {
    this.#wasFull = true;
  }

  /** Takes room until the reserve is whole. False when the disk has too little, or no more room. */
  restore(): boolean {
    if (!this.#fill()) return false;
    this.#wasFull &&= !this.#hasRoom();
    return !this.#wasFull;
  }

  #hasRoom(): boolean {
    try {
      return writeSync(this.#fd, Buffer.alloc(usableBytes)) === usableBytes;
    } catch {
      return false;
    } finally {
      ftruncateSync(this.#fd, this.#bytes);
    }
  }

  #fill(): boolean {
    const part = Buffer.alloc(this.#partBytes);
    while (this.#bytes < this.#partBytes * parts) {
      try {
        // A write may be short when the room ends.
        if (writeSync(this.#fd, part) < part.length) throw new Error("too little room");
        this.#bytes += part.length;
      } catch {
        ftruncateSync(this.#fd, this.#bytes);
        return false;
      }
    }
    return true;
  }

  /** Frees a part. False when nothing is left. */
  release(): boolean {
    if (this.#bytes === 0) return false;
    this.#bytes -= this.#partBytes;
    ftruncateSync(this.#fd, this.#bytes);
    return true;
  }

  close(): void {
    closeSync(this.#fd);
  }
}
