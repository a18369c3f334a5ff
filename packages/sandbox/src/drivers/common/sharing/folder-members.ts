import { randomBytes } from "node:crypto";
import { closeSync, constants, mkdirSync, openSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { tryLockFile } from "../../../kernel/file-lock.ts";
import type { FolderLock } from "./folder-lock.ts";

const { O_RDWR, O_CREAT, O_EXCL, O_RDONLY } = constants;

/**
 * The processes that work in one folder at the same time, its members. Each member has a file,
 * which it keeps locked; the kernel releases the lock when the process ends. The name of an
 * unfinished file contains the name of its member, so that others remove only files of ended
 * members.
 */
export class FolderMembers {
  readonly #folder: string;
  readonly #lock: FolderLock;
  #own: { name: string; fd: number } | undefined;

  /** `join` creates `folder` when it is missing. `join` and `leave` hold `lock`. */
  constructor(folder: string, lock: FolderLock) {
    this.#folder = folder;
    this.#lock = lock;
  }

  /** Name of this process: letters, digits and `-`. Throws before `join`. */
  get name(): string {
    if (!this.#own) throw new Error("this process is no member of the folder");
    return this.#own.name;
  }

  /** Makes this process a member, and removes the files of members that have ended. */
  join(): void {
    if (this.#own) return;
    this.#lock.run(() => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
      for (const name of readdirSync(this.#folder))
        if (!this.isLiving(name)) rmSync(this.#path(name), { force: true });
      const name = `${process.pid}-${randomBytes(6).toString("hex")}`;
      const fd = openSync(this.#path(name), O_RDWR | O_CREAT | O_EXCL, 0o600);
      // The lock fails while another process probes the new file in `isLiving`.
      while (!tryLockFile(fd, "exclusive"));
      this.#own = { name, fd };
    });
  }

  /** True for a member that has not ended, also for one that is stopped. */
  isLiving(name: string): boolean {
    if (name === this.#own?.name) return true;
    if (!/^\d+-[0-9a-f]{12}$/.test(name)) return false;
    let fd: number;
    try {
      fd = openSync(this.#path(name), O_RDONLY);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
      throw error;
    }
    try {
      return !tryLockFile(fd, "shared");
    } finally {
      closeSync(fd);
    }
  }

  /** True for another member that has not ended. */
  isOther(name: string | undefined): boolean {
    return name !== undefined && name !== this.#own?.name && this.isLiving(name);
  }

  /**
   * Process ids of the other living members. This process is among them if it is a member twice.
   */
  otherPids(): Set<number> {
    return new Set(this.#others().map((name) => Number.parseInt(name, 10)));
  }

  /** Ends the membership of this process; calls `ifLast` when no other member is left. */
  leave(ifLast: () => void = () => {}): void {
    const own = this.#own;
    if (!own) return;
    this.#lock.run(() => {
      if (this.#others().length === 0) ifLast();
      this.#own = undefined;
      rmSync(this.#path(own.name), { force: true });
      closeSync(own.fd);
    });
  }

  #others(): string[] {
    return readdirSync(this.#folder).filter((name) => this.isOther(name));
  }

  #path(name: string): string {
    return join(this.#folder, name);
  }
}
