import { call, native } from "./libc.ts";

const mkfifo = native("int mkfifo(const char *path, unsigned int mode)");

/** Makes a named pipe; the process's file mode mask applies. Throws EEXIST. */
export function makeFifo(path: string, mode: number): void {
  call("mkfifo", () => mkfifo(path, mode));
}
