import { call, native } from "./libc.ts";

const setIds = native("long syscall(long number, long real, long effective, long saved)");

/** Numbers of setresuid and setresgid. The C library's functions would change all threads. */
const numbers = process.arch === "arm64" ? { user: 147, group: 149 } : { user: 117, group: 119 };
const unchanged = -1;

/**
 * Runs synchronous work of the calling thread with an effective user and group id; a program that
 * it spawns keeps them, without capabilities. Only for root.
 */
export function withEffectiveId<T>(id: number, work: () => T): T {
  setEffective(numbers.group, id);
  try {
    setEffective(numbers.user, id);
    return work();
  } finally {
    // A thread that is not root again would fail in all later work.
    try {
      setEffective(numbers.user, 0);
      setEffective(numbers.group, 0);
    } catch (error) {
      process.stderr.write(`sandpiper: the server's own user id is lost: ${String(error)}\n`);
      process.abort();
    }
  }
}

function setEffective(number: number, id: number): void {
  call("setresuid", () => setIds(number, unchanged, id, unchanged));
}
