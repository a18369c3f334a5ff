import { closeSync, fstatSync } from "node:fs";
import { call, native } from "./libc.ts";

const mkfifo = native("int mkfifo(const char *path, unsigned int mode)");
const chdir = native("int chdir(const char *path)");
const memfdCreate = native("int memfd_create(const char *name, unsigned int flags)");

const MFD_CLOEXEC = 1;

/** Creates a named pipe; the umask of the process applies. Throws EEXIST. */
export function makeFifo(path: string, mode: number): void {
  call("mkfifo", () => mkfifo(path, mode));
}

/** Changes the working folder of a thread that has its own (see `unshareMounts`). */
export function changeFolder(path: string): void {
  call("chdir", () => chdir(path));
}

/** Device number of files in memory: `memfd_create`, shared mappings and System V segments. */
export function getMemoryDevice(): number {
  const fd = call("memfd_create", () => memfdCreate("", MFD_CLOEXEC));
  try {
    return fstatSync(fd).dev;
  } finally {
    closeSync(fd);
  }
}
