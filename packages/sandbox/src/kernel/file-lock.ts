import { call, native } from "./libc.ts";

const flock = native("int flock(int fd, int operation)");

const operations = { shared: 1, exclusive: 2 } as const;
const LOCK_NB = 4;

/**
 * Takes the lock of an open file without waiting; false when another process has it. The kernel
 * releases the lock when the file is closed, which it is at the latest when this process ends.
 */
export function tryLockFile(fd: number, mode: keyof typeof operations): boolean {
  try {
    call("flock", () => flock(fd, operations[mode] | LOCK_NB));
    return true;
  } catch (error) {
    if (["EAGAIN", "EWOULDBLOCK"].includes((error as NodeJS.ErrnoException).code ?? "")) return false;
    throw error;
  }
}
