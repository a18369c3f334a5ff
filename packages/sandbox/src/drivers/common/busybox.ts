import { closeSync, openSync, readSync, realpathSync } from "node:fs";

/** Folder in every sandbox for what the server brings, and busybox in it. */
export const insideFolder = "/run/sandpiper";
export const insideBusybox = `${insideFolder}/busybox`;

/** The static busybox of Debian's package `busybox-static`. */
const paths = ["/usr/bin/busybox", "/bin/busybox"];

const PT_INTERP = 3;

/** Path of a static busybox, which runs in any root filesystem; undefined without one. */
export function findBusybox(): string | undefined {
  for (const candidate of paths) {
    try {
      const path = realpathSync(candidate);
      if (isStatic(path)) return path;
    } catch {
      // It does not exist.
    }
  }
  return undefined;
}

/** True for a 64-bit little-endian ELF program that needs no dynamic loader. */
function isStatic(path: string): boolean {
  const fd = openSync(path, "r");
  try {
    const head = Buffer.alloc(4_096);
    const length = readSync(fd, head);
    if (head.toString("latin1", 0, 6) !== "\x7fELF\x02\x01") return false;
    const offset = Number(head.readBigUInt64LE(32));
    const size = head.readUInt16LE(54);
    const count = head.readUInt16LE(56);
    if (offset + size * count > length) return false;
    return Array.from({ length: count }, (_, at) => head.readUInt32LE(offset + at * size)).every(
      (type) => type !== PT_INTERP,
    );
  } finally {
    closeSync(fd);
  }
}
