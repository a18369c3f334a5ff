import { closeSync } from "node:fs";
import { call, native } from "./libc.ts";
import { prepareMaster, type TtySize } from "./pseudo-terminal.ts";

const syscall = native("long syscall(long number, ...)");

/** Numbers of system calls. They are the same on every architecture. */
const SYS_pidfd_open = 434;
const SYS_pidfd_getfd = 438;

/**
 * Unlocks a pseudo-terminal that a process of a sandbox has opened, because no shell can unlock it.
 * `fd` is the process's descriptor of `/dev/ptmx`, `pid` the id of the process on the host.
 * `isMember` says whether the process belongs to the sandbox; it is called once no other process
 * can get that id. Returns the path of the terminal in the sandbox. Throws ESRCH, EBADF, EPERM
 * (where tracing is forbidden), and ENOTTY when the descriptor is no such terminal.
 */
export function unlockProcessTerminal(
  pid: number,
  fd: number,
  size: TtySize,
  isMember: (pid: number) => boolean,
): string {
  const handle = call("pidfd_open", () => syscall(SYS_pidfd_open, "int", pid, "int", 0));
  try {
    if (!isMember(pid)) throw Object.assign(new Error("ESRCH"), { code: "ESRCH" });
    const master = call("pidfd_getfd", () => syscall(SYS_pidfd_getfd, "int", handle, "int", fd, "int", 0));
    try {
      return prepareMaster(master, size);
    } finally {
      closeSync(master);
    }
  } finally {
    closeSync(handle);
  }
}
