import { type Extent, SparseMapReader } from "./sparse-map.ts";
import { blockBytes, paddedSize, padding, renameHeader, TarInvalid, writeHeader } from "./tar-header.ts";
import { type TarPart, TarReader } from "./tar-reader.ts";

const zeros = Buffer.alloc(2 ** 18);

/**
 * Writes the sparse files of a tar stream in full, for programs that cannot read their form. Throws
 * TarInvalid.
 */
export async function* expandSparse(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const reader = new TarReader();
  let file: SparseFile | undefined;
  for await (const chunk of chunks)
    for (const part of reader.read(chunk)) {
      if (part.kind !== "content") {
        if (file && !file.isWhole) throw damaged();
        file = undefined;
      }
      if (part.kind === "entry") {
        file = part.entry.hasMap ? new SparseFile(part) : undefined;
        yield* file ? file.headers : part.blocks;
      } else if (part.kind === "content") {
        if (file) yield* file.take(part.bytes);
        else yield part.bytes;
      }
    }
  if (!reader.hasEnded) throw new TarInvalid("has no end");
  yield Buffer.alloc(2 * blockBytes);
}

function damaged(): TarInvalid {
  return new TarInvalid("has a sparse file with a damaged map");
}

/** A sparse file whose content comes in pieces. */
class SparseFile {
  /** Headers of the same file without holes. */
  readonly headers: Buffer[];
  readonly #size: number;
  readonly #map = new SparseMapReader();
  #block: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  #extents: Extent[] | undefined;
  /** Index of the extent that is not written yet. */
  #next = 0;
  /** Bytes of the file that were written. */
  #at = 0;

  constructor({ entry, blocks }: Extract<TarPart, { kind: "entry" }>) {
    const { path, realSize } = entry;
    this.#size = realSize;
    // The long name of GNU, because busybox does not read extended headers.
    const name = Buffer.from(`${path}\0`);
    this.headers = [
      writeHeader({ path: "././@LongLink", type: "L", size: name.length }),
      Buffer.concat([name, padding(name.length)]),
      renameHeader(blocks.at(-1)!, path, realSize),
    ];
  }

  /** Whether all of the file was written. */
  get isWhole(): boolean {
    return this.#at === paddedSize(this.#size) && this.#extents?.length === this.#next;
  }

  /** Returns what of the file these bytes of the archive make; their padding makes nothing. */
  *take(bytes: Buffer): Generator<Buffer> {
    let rest = bytes;
    while (!this.#extents && rest.length > 0) {
      const part = rest.subarray(0, blockBytes - this.#block.length);
      rest = rest.subarray(part.length);
      this.#block = Buffer.concat([this.#block, part]);
      if (this.#block.length < blockBytes) return;
      this.#extents = this.#map.take(this.#block);
      this.#block = Buffer.alloc(0);
    }
    for (; this.#extents && this.#next < this.#extents.length; this.#next++) {
      const { from, length } = this.#extents[this.#next]!;
      if (from + length > this.#size) throw damaged();
      yield* this.#zeros(from);
      const data = rest.subarray(0, from + length - this.#at);
      if (data.length > 0) yield data;
      this.#at += data.length;
      rest = rest.subarray(data.length);
      if (this.#at < from + length) return;
    }
    if (this.#extents) yield* this.#zeros(paddedSize(this.#size));
  }

  *#zeros(until: number): Generator<Buffer> {
    while (this.#at < until) {
      const part = zeros.subarray(0, until - this.#at);
      this.#at += part.length;
      yield part;
    }
  }
}
