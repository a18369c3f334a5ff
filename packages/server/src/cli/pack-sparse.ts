import { constants, type Stats } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { padding } from "@sandpiper/sandbox/tar/tar-header";

/** Bytes of holes from which a file is packed without them. */
const minHoles = 2 ** 20;
const blockOfStat = 512;
/** Bytes that are read at a time. */
const chunkBytes = 2 ** 18;

/** Whether a file has holes that are worth to be left out. */
export function hasHoles(stats: Stats): boolean {
  return stats.isFile() && stats.size - stats.blocks * blockOfStat >= minHoles;
}

/** Bytes of a file that are copied. */
export function copiedBytes(stats: Stats): number {
  return hasHoles(stats) ? stats.blocks * blockOfStat : stats.size;
}

/**
 * Packs a sparse file as an entry of a tar stream, without its holes. Throws the error of a file
 * that cannot be opened.
 */
export async function* packSparse(file: string, path: string): AsyncGenerator<Buffer> {
  // Loaded by those who have such a file.
  const { findData } = await import("@sandpiper/sandbox/kernel/find-data");
  const { dataOf, writeSparse } = await import("@sandpiper/sandbox/tar/sparse-map");
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stats = await handle.stat();
    if (!stats.isFile()) return;
    const { size, mode, mtimeMs } = stats;
    const extents = findData(handle.fd, size);
    const portable = (mode | 0o600) & 0o755;
    yield writeSparse({ path, size, mode: portable, mtime: mtimeMs / 1000 }, extents);
    for (const extent of extents) yield* read(handle, extent);
    yield padding(dataOf(extents));
  } finally {
    await handle.close();
  }
}

/** Reads data of a file; what is missing because the file shrinks is zeros. */
async function* read(
  handle: FileHandle,
  { from, length }: { from: number; length: number },
): AsyncGenerator<Buffer> {
  for (let at = from; at < from + length; ) {
    const bytes = Buffer.alloc(Math.min(chunkBytes, from + length - at));
    const { bytesRead } = await handle.read(bytes, 0, bytes.length, at);
    const part = bytesRead === 0 ? bytes : bytes.subarray(0, bytesRead);
    at += part.length;
    yield part;
  }
}
