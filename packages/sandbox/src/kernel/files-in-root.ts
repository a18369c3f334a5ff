import { closeSync, constants, fchmodSync, fchownSync, openSync, writeFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { call, native } from "./libc.ts";

/**
 * Writing into a root filesystem that somebody else filled: no name in it, no link and no `..`, leads outside of it.
 */
const openat2 = native("long syscall(long number, int fd, const char *path, const void *how, size_t size)");
const mkdirat = native("int mkdirat(int fd, const char *path, unsigned int mode)");

const SYS_openat2 = 437;
const RESOLVE_NO_MAGICLINKS = 2n;
const RESOLVE_IN_ROOT = 0x10n;
const O_CLOEXEC = 0o2000000;
const O_PATH = 0o10000000;

export interface Owner {
  uid: number;
  gid: number;
}

/** An open root folder; to be closed. */
export class RootFolder {
  readonly #fd: number;
  /** Whom folders belong to that are made on the way. */
  readonly #root: Owner;

  constructor(path: string, root: Owner) {
    this.#fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
    this.#root = root;
  }

  /** Makes the folder and what is missing above it; those that are there stay as they are. Throws ENOTDIR, …. */
  makeFolder(path: string, owner: Owner, mode = 0o755): void {
    closeSync(this.#folder(path, owner, mode));
  }

  /** Writes a file that all may read; its folder is made where it is missing. Throws ENXIO for a named pipe, ELOOP, …. */
  writeFile(path: string, content: string): void {
    closeSync(this.#folder(dirname(path), this.#root, 0o755));
    const { O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK } = constants;
    const fd = this.#open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o644);
    try {
      fchownSync(fd, this.#root.uid, this.#root.gid);
      fchmodSync(fd, 0o644);
      writeFileSync(fd, content);
    } finally {
      closeSync(fd);
    }
  }

  close(): void {
    closeSync(this.#fd);
  }

  #folder(path: string, owner: Owner, mode: number): number {
    try {
      return this.#open(path, O_PATH | constants.O_DIRECTORY);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || dirname(path) === path) throw error;
    }
    const parent = this.#folder(dirname(path), owner, 0o755);
    try {
      call("mkdirat", () => mkdirat(parent, basename(path), 0o755));
    } finally {
      closeSync(parent);
    }
    const made = this.#open(path, constants.O_RDONLY | constants.O_DIRECTORY);
    fchownSync(made, owner.uid, owner.gid);
    fchmodSync(made, mode);
    return made;
  }

  #open(path: string, flags: number, mode = 0): number {
    const how = Buffer.from(
      BigUint64Array.of(BigInt(flags | O_CLOEXEC), BigInt(mode), RESOLVE_NO_MAGICLINKS | RESOLVE_IN_ROOT)
        .buffer,
    );
    // A leading slash would lead away from the folder, were it not for the flag.
    const relative = path.replace(/^\/+/, "") || ".";
    return call("openat2", () => openat2(SYS_openat2, this.#fd, relative, how, how.length));
  }
}
