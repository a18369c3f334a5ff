import {
  closeSync,
  constants,
  fchmodSync,
  fchownSync,
  fstatSync,
  openSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import { basename, dirname } from "node:path";
import { call, native } from "./libc.ts";

/*
 * Access to files of an untrusted root filesystem: links and `..` in it are resolved within the
 * root and never lead outside.
 */

const openat2 = native("long syscall(long number, int fd, const char *path, const void *how, size_t size)");
const mkdirat = native("int mkdirat(int fd, const char *path, unsigned int mode)");

/** The same on every architecture. */
const SYS_openat2 = 437;
const RESOLVE_NO_MAGICLINKS = 2n;
const RESOLVE_IN_ROOT = 0x10n;
const O_CLOEXEC = 0o2000000;
const O_PATH = 0o10000000;

const { O_RDONLY, O_WRONLY, O_CREAT, O_TRUNC, O_NONBLOCK, O_DIRECTORY } = constants;
const maxReadBytes = 2 ** 20;
const missingCodes = ["ENOENT", "ENOTDIR", "ELOOP", "EACCES", "EXDEV", "ENXIO"];

export interface Owner {
  uid: number;
  gid: number;
}

/** An open root folder. The caller closes it. */
export class RootFolder {
  readonly #fd: number;
  readonly #root: Owner;

  /** `root` owns the parent folders that are created on the way. */
  constructor(path: string, root: Owner) {
    this.#fd = openSync(path, O_RDONLY | O_DIRECTORY);
    this.#root = root;
  }

  /** Creates the folder and its missing parents; existing ones do not change. Throws ENOTDIR, …. */
  makeFolder(path: string, owner: Owner, mode = 0o755): void {
    closeSync(this.#folder(path, owner, mode));
  }

  /** Writes a file (mode 0644) and its missing parents. Throws ENXIO for a named pipe, ELOOP, …. */
  writeFile(path: string, content: string): void {
    closeSync(this.#folder(dirname(path), this.#root, 0o755));
    const fd = openInRoot(this.#fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o644);
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
      return openInRoot(this.#fd, path, O_PATH | O_DIRECTORY);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || dirname(path) === path) throw error;
    }
    const parent = this.#folder(dirname(path), owner, 0o755);
    try {
      call("mkdirat", () => mkdirat(parent, basename(path), 0o755));
    } finally {
      closeSync(parent);
    }
    const made = openInRoot(this.#fd, path, O_RDONLY | O_DIRECTORY);
    fchownSync(made, owner.uid, owner.gid);
    fchmodSync(made, mode);
    return made;
  }
}

/**
 * Reads a text file as a process inside the root would. Undefined when it is not a regular file or
 * is larger than 1 MB.
 */
export function readInRoot(root: string, path: string): string | undefined {
  const folder = openSync(root, O_PATH | O_DIRECTORY);
  try {
    const file = openInRoot(folder, path, O_NONBLOCK);
    try {
      const found = fstatSync(file);
      return found.isFile() && found.size <= maxReadBytes ? readFileSync(file, "utf8") : undefined;
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (missingCodes.includes((error as NodeJS.ErrnoException).code ?? "")) return undefined;
    throw error;
  } finally {
    closeSync(folder);
  }
}

/** Opens a path below an open folder, which links in it do not leave. Throws ENOENT, ELOOP, …. */
export function openInRoot(folder: number, path: string, flags: number, mode = 0): number {
  const how = Buffer.from(
    BigUint64Array.of(BigInt(flags | O_CLOEXEC), BigInt(mode), RESOLVE_NO_MAGICLINKS | RESOLVE_IN_ROOT)
      .buffer,
  );
  const relative = path.replace(/^\/+/, "") || ".";
  return call("openat2", () => openat2(SYS_openat2, folder, relative, how, how.length));
}
