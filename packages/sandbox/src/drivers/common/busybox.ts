import { closeSync, openSync, readSync, realpathSync } from "node:fs";

/** Debian's package `busybox-static`. */
const places = ["/usr/bin/busybox", "/bin/busybox"];

const interpreterSegment = 3;

/** Path of a statically linked busybox of this machine, which runs in any root filesystem; undefined where there is none. */
export function findBusybox(): string | undefined {
  for (const place of places) {
    try {
      const path = realpathSync(place);
      if (isStatic(path)) return path;
    } catch {
      // Not there.
    }
  }
  return undefined;
}

/** True for a 64-bit little-endian ELF program that asks for no dynamic loader. */
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
      (type) => type !== interpreterSegment,
    );
  } finally {
    closeSync(fd);
  }
}
