import { call, native } from "./libc.ts";

const lseek = native("long lseek(int fd, long offset, int whence)");
const SEEK_DATA = 3;
const SEEK_HOLE = 4;

const page = 4_096;
/** Holes between data that count as data, bytes: to describe one costs as much. */
const minHole = 64 * 1024;
/** Extents that are told apart; the rest of the file then counts as data. */
const maxExtents = 10_000;

/**
 * Finds the data of an open file of `size` bytes, in whole pages. It moves the file's position.
 * Where the filesystem cannot tell, all of it is data.
 */
export function findData(fd: number, size: number): { from: number; length: number }[] {
  const found: { from: number; length: number }[] = [];
  for (let at = 0; at < size; ) {
    const data = seek(fd, at, SEEK_DATA);
    if (data === undefined || data >= size) break;
    const isLast = found.length === maxExtents;
    const hole = isLast ? size : (seek(fd, data, SEEK_HOLE) ?? size);
    const from = Math.floor(data / page) * page;
    const end = Math.min(Math.ceil(hole / page) * page, size);
    const last = found.at(-1);
    if (last && from - (last.from + last.length) < minHole) last.length = end - last.from;
    else found.push({ from, length: end - from });
    at = end;
  }
  return found;
}

/** Undefined when nothing of the kind follows. */
function seek(fd: number, at: number, whence: number): number | undefined {
  try {
    return call("lseek", () => lseek(fd, at, whence));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENXIO") return undefined;
    if (code === "EINVAL") return whence === SEEK_DATA ? at : undefined;
    throw error;
  }
}
