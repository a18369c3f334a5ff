import {
  blockBytes,
  isExtension,
  paddedSize,
  readExtension,
  readHeader,
  type TarEntry,
  type TarExtension,
  TarInvalid,
} from "./tar-header.ts";

/** Bytes of the extended headers of an entry: long names and attributes. */
const maxExtension = 2 ** 20;

export type TarPart =
  /** An entry begins; `blocks` are its headers as they came. */
  | { kind: "entry"; entry: TarEntry; blocks: Buffer[] }
  /** Content of the last entry, with its padding; in memory of the chunk. */
  | { kind: "content"; bytes: Buffer }
  | { kind: "end" };

/**
 * Reads an uncompressed tar stream of an untrusted source in chunks of any length. Memory is
 * bounded by a chunk and the headers of one entry; contents are skipped by arithmetic.
 */
export class TarReader {
  /** The beginning of a block that goes on in the next chunk. */
  #begun: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  /** Bytes of content and padding that are still to come. */
  #left = 0;
  /** The extended header whose content is being read. */
  #extension: { type: string; size: number; left: number; blocksBefore: number } | undefined;
  #next: TarExtension = {};
  #blocks: Buffer[] = [];
  /** Bytes of `#blocks`. */
  #held = 0;
  /** An entry whose map goes on in further blocks. */
  #mapped: TarEntry | undefined;
  #hasEnded = false;
  #trailing = 0;

  /** Whether the block of zeros that ends an archive came. */
  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Bytes after the end of the archive. */
  get trailing(): number {
    return this.#trailing;
  }

  /** Throws TarInvalid. */
  *read(chunk: Buffer): Generator<TarPart> {
    for (let at = 0; at < chunk.length; ) {
      if (this.#hasEnded) {
        this.#trailing += chunk.length - at;
        return;
      }
      if (this.#left > 0) {
        const bytes = chunk.subarray(at, at + this.#left);
        at += bytes.length;
        this.#left -= bytes.length;
        yield { kind: "content", bytes };
        continue;
      }
      if (this.#extension) {
        const part = chunk.subarray(at, at + this.#extension.left);
        at += part.length;
        this.#extension.left -= part.length;
        this.#hold(part);
        if (this.#extension.left === 0) this.#endExtension();
        continue;
      }
      const part = chunk.subarray(at, at + blockBytes - this.#begun.length);
      at += part.length;
      const block = this.#begun.length === 0 ? part : Buffer.concat([this.#begun, part]);
      this.#begun = block.length < blockBytes ? Buffer.from(block) : Buffer.alloc(0);
      if (block.length === blockBytes) yield* this.#enter(block);
    }
  }

  *#enter(block: Buffer): Generator<TarPart> {
    if (this.#mapped) {
      this.#hold(block);
      if (block[504] === 0) yield this.#begin(this.#mapped);
      return;
    }
    // The first block of zeros ends the archive.
    if (block[0] === 0 && block.every((byte) => byte === 0)) {
      this.#hasEnded = true;
      this.#trailing = 0;
      yield { kind: "end" };
      return;
    }
    const isForNext = isExtension(String.fromCharCode(block[156]!));
    const entry = readHeader(block, isForNext ? {} : this.#next);
    this.#hold(block);
    if (isForNext) {
      if (entry.size > maxExtension) throw new TarInvalid("has a header of more than 1 MB");
      const { type, size } = entry;
      this.#extension = { type, size, left: paddedSize(size), blocksBefore: this.#blocks.length };
      if (entry.size === 0) this.#endExtension();
      return;
    }
    this.#next = {};
    if (entry.type === "S" && block[482] !== 0) this.#mapped = entry;
    else yield this.#begin(entry);
  }

  #begin(entry: TarEntry): TarPart {
    const blocks = this.#blocks;
    this.#blocks = [];
    this.#held = 0;
    this.#mapped = undefined;
    this.#left = paddedSize(entry.size);
    return { kind: "entry", entry, blocks };
  }

  #hold(part: Buffer): void {
    this.#held += part.length;
    if (this.#held > maxExtension + 2 ** 16) throw new TarInvalid("has a header of more than 1 MB");
    // Copied, because the source may use the memory of its chunks again.
    this.#blocks.push(Buffer.from(part));
  }

  #endExtension(): void {
    const { type, size, blocksBefore } = this.#extension!;
    this.#extension = undefined;
    const content = Buffer.concat(this.#blocks.slice(blocksBefore)).subarray(0, size);
    readExtension(type, content, this.#next);
  }
}
