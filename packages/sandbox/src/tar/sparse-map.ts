import { blockBytes, padding, TarInvalid, writeExtension, writeHeader } from "./tar-header.ts";

/** Data of a sparse file; holes are around it. But for the last one, whole blocks of the tar. */
export interface Extent {
  from: number;
  /** Bytes. */
  length: number;
}

/** Longest map that is read, bytes; a file of a gigabyte with a hole every 20 KB needs less. */
const maxMapBytes = 2 ** 20;

/**
 * The headers and the map of a sparse file in the form of PAX 1.0, which GNU tar, bsdtar and Python
 * read. The data of the extents follows, and the padding of all of it.
 */
export function writeSparse(
  { path, size, mode, mtime }: { path: string; size: number; mode: number; mtime: number },
  extents: readonly Extent[],
): Buffer {
  const last = extents.at(-1);
  // A hole at the end has an extent without data.
  const all = last && last.from + last.length === size ? extents : [...extents, { from: size, length: 0 }];
  const lines = [all.length, ...all.flatMap(({ from, length }) => [from, length])];
  const text = Buffer.from(`${lines.join("\n")}\n`);
  const map = Buffer.concat([text, padding(text.length)]);
  const stored = map.length + dataOf(extents);
  const records = {
    "GNU.sparse.major": "1",
    "GNU.sparse.minor": "0",
    "GNU.sparse.name": path,
    "GNU.sparse.realsize": String(size),
    size: String(stored),
  };
  const header = writeHeader({ path: "GNUSparseFile.0/file", size: stored, mode, mtime });
  return Buffer.concat([writeExtension(records), header, map]);
}

export function dataOf(extents: readonly Extent[]): number {
  return extents.reduce((sum, { length }) => sum + length, 0);
}

/** Reads the map that precedes the data of a sparse file. */
export class SparseMapReader {
  #text = "";
  #lines = 0;
  /** Lines of the whole map. */
  #wanted: number | undefined;

  /**
   * Takes a block of the content; returns the extents after the last block of the map. Throws
   * TarInvalid.
   */
  take(block: Buffer): Extent[] | undefined {
    this.#text += block.toString("latin1");
    for (const byte of block) if (byte === 10) this.#lines += 1;
    if (this.#lines > 0) this.#wanted ??= 1 + 2 * readCount(this.#text.split("\n", 1)[0]!);
    if (this.#text.length > maxMapBytes) throw invalid();
    if (this.#wanted === undefined || this.#lines < this.#wanted) return undefined;
    const numbers = this.#text.split("\n", this.#wanted).slice(1).map(readCount);
    const extents: Extent[] = [];
    for (let at = 0, end = 0; at < numbers.length; at += 2) {
      const [from, length] = [numbers[at]!, numbers[at + 1]!];
      // GNU tar reads each from the next block, others from the next byte.
      const isWhole = (extents.at(-1)?.length ?? 0) % blockBytes === 0;
      if (from < end || (!isWhole && length > 0)) throw invalid();
      end = from + length;
      extents.push({ from, length });
    }
    return extents;
  }
}

function readCount(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw invalid();
  return Number(text);
}

function invalid(): TarInvalid {
  return new TarInvalid("has a sparse file with a damaged map");
}
