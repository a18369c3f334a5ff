import { call, native } from "./libc.ts";

const fcntl = native("int fcntl(int fd, int command, ...)");

const F_DUPFD_CLOEXEC = 1030;

/** Returns another descriptor of the same file or socket, which programs do not inherit. */
export function duplicateDescriptor(fd: number): number {
  return call("fcntl", () => fcntl(fd, F_DUPFD_CLOEXEC, "int", 3));
}
