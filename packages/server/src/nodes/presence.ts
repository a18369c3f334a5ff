import {
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { tryLockFile } from "@sandpiper/sandbox/kernel/file-lock";

const { O_RDWR, O_CREAT, O_EXCL, O_RDONLY } = constants;

/** Beginning of the name of a file that is not locked yet. */
const unfinished = ".";

/**
 * Tells the nodes that share a data folder which of their processes have ended. Each node keeps the
 * file with the name of its incarnation locked in a folder. The kernel releases the lock when the
 * process ends. A process that stands still keeps the lock.
 */
export class NodePresence {
  readonly #folder: string;
  /** The open files of this node, by incarnation. */
  readonly #own = new Map<string, number>();

  /** `enter` creates the folder when it is missing. */
  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Creates the locked file of an incarnation of this node. Throws what the file system throws.
   */
  enter(incarnation: string): void {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const draft = this.#path(`${unfinished}${incarnation}`);
    const fd = openSync(draft, O_RDWR | O_CREAT | O_EXCL, 0o600);
    try {
      if (!tryLockFile(fd, "exclusive")) throw new Error(`another process has locked ${draft}`);
      renameSync(draft, this.#path(incarnation));
    } catch (error) {
      rmSync(draft, { force: true });
      closeSync(fd);
      throw error;
    }
    this.#own.set(incarnation, fd);
  }

  /** Removes the file of an incarnation of this node. */
  leave(incarnation: string): void {
    const fd = this.#own.get(incarnation);
    if (fd === undefined) return;
    this.#own.delete(incarnation);
    this.forget(incarnation);
    closeSync(fd);
  }

  /** The incarnations whose processes have ended without leaving. */
  listEnded(): string[] {
    const names = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
    return names.filter((name) => !name.startsWith(unfinished) && this.#hasEnded(name));
  }

  /** Removes the file of an incarnation whose process has ended. */
  forget(incarnation: string): void {
    rmSync(this.#path(incarnation), { force: true });
  }

  #hasEnded(incarnation: string): boolean {
    if (this.#own.has(incarnation)) return false;
    let fd: number;
    try {
      fd = openSync(this.#path(incarnation), O_RDONLY);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      throw error;
    }
    try {
      return tryLockFile(fd, "shared");
    } finally {
      closeSync(fd);
    }
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }
}
