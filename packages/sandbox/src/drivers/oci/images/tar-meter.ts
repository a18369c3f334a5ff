import { PlatformError } from "@sandpiper/core/errors";
import { formatSize } from "../../../service/disk-space.ts";

/** What an image may unpack to; `bytes` 0: no limit. */
export interface ImageLimits {
  bytes: number;
  /** Entries of its layers. */
  files: number;
  /** Names in a path. */
  depth: number;
}

const block = 512;
/** Longest extended header, bytes: long names and attributes. */
const maxExtension = 2 ** 20;
/** Types without content, whatever size their header has. */
const headerOnly: ReadonlySet<string> = new Set(["1", "2", "3", "4", "5", "6"]);

/**
 * Counts what the layers of an image unpack to, from their uncompressed tar streams. It keeps at
 * most one extended header in memory. `name` is that of the image.
 */
export class TarMeter {
  readonly #name: string;
  readonly #limits: ImageLimits;
  #bytes = 0;
  #files = 0;
  /** Bytes of the streams, which cost time even where they unpack to nothing. */
  #stream = 0;
  #header: Buffer<ArrayBufferLike> = Buffer.alloc(0);
  /** Bytes of the content that is being skipped. */
  #skip = 0;
  /** The extended header that is being read. */
  #extension: { type: string; size: number; parts: Buffer[]; length: number } | undefined;
  /** What extended headers say of the next entry. */
  #next: { path?: string; size?: number; realSize?: number } = {};
  #hasEnded = false;
  /** Further blocks with the map of a sparse file come before its content. */
  #mapGoesOn = false;

  constructor(name: string, limits: ImageLimits) {
    this.#name = name;
    const { bytes, ...rest } = limits;
    this.#limits = { ...rest, bytes: bytes === 0 ? Number.MAX_SAFE_INTEGER : bytes };
  }

  /** The stream of another layer begins. */
  nextLayer(): void {
    this.#header = Buffer.alloc(0);
    this.#skip = 0;
    this.#extension = undefined;
    this.#next = {};
    this.#hasEnded = false;
    this.#mapGoesOn = false;
  }

  /** Throws SandboxSpecUnusable as soon as a limit is exceeded. */
  take(chunk: Buffer): void {
    this.#stream += chunk.length;
    const { bytes, files } = this.#limits;
    if (this.#stream > bytes + files * 2 * block) throw this.#tooLarge();
    for (let at = 0; at < chunk.length && !this.#hasEnded; ) {
      const read = this.#read(chunk.subarray(at));
      at += read;
    }
  }

  /** Reads a piece of what comes next; returns its length. */
  #read(chunk: Buffer): number {
    if (this.#extension && this.#extension.length < this.#extension.size) {
      const { size, parts, length } = this.#extension;
      const part = chunk.subarray(0, size - length);
      parts.push(Buffer.from(part));
      this.#extension.length += part.length;
      if (this.#extension.length === size) this.#endExtension();
      return part.length;
    }
    if (this.#skip > 0 && !this.#mapGoesOn) {
      const skipped = Math.min(this.#skip, chunk.length);
      this.#skip -= skipped;
      return skipped;
    }
    const part = chunk.subarray(0, block - this.#header.length);
    this.#header = this.#header.length === 0 ? part : Buffer.concat([this.#header, part]);
    if (this.#header.length === block) {
      const header = this.#header;
      this.#header = Buffer.alloc(0);
      if (this.#mapGoesOn) this.#mapGoesOn = header[504] !== 0;
      else this.#enter(header);
    } else this.#header = Buffer.from(this.#header);
    return part.length;
  }

  #enter(header: Buffer): void {
    // The first block of zeros ends the archive, or the archive is invalid.
    if (header.every((byte) => byte === 0)) {
      this.#hasEnded = true;
      return;
    }
    const type = String.fromCharCode(header[156] || 48);
    const size = this.#next.size ?? parseNumber(header.subarray(124, 136));
    if (!Number.isSafeInteger(size) || size < 0) throw this.#invalid("a layer has an entry of no valid size");
    if (type === "x" || type === "L" || type === "g" || type === "K") {
      if (size > maxExtension) throw this.#invalid("a layer has a header of more than 1 MB");
      this.#extension = { type, size, parts: [], length: 0 };
      if (size === 0) this.#endExtension();
      return;
    }
    const { path = readPath(header), realSize = 0 } = this.#next;
    this.#next = {};
    const isSparse = type === "S";
    const real = isSparse ? parseNumber(header.subarray(483, 495)) : realSize;
    const content = headerOnly.has(type) ? 0 : size;
    this.#count(path, Math.max(content, Number.isSafeInteger(real) ? real : Number.MAX_SAFE_INTEGER));
    this.#skip = Math.ceil(content / block) * block;
    this.#mapGoesOn = isSparse && header[482] !== 0;
  }

  #count(path: string, bytes: number): void {
    const { bytes: maxBytes, files, depth } = this.#limits;
    this.#bytes += bytes;
    this.#files += 1;
    if (this.#bytes > maxBytes) throw this.#tooLarge();
    if (this.#files > files) throw new PlatformError("ImageTooManyFiles", { name: this.#name, max: files });
    const names = path.split("/").filter((name) => name !== "" && name !== ".");
    if (names.length > depth) throw new PlatformError("ImageTooDeep", { name: this.#name, max: depth });
  }

  #endExtension(): void {
    const { type, size, parts } = this.#extension!;
    this.#extension = undefined;
    this.#skip = Math.ceil(size / block) * block - size;
    const content = Buffer.concat(parts);
    if (type === "L") this.#next.path = readText(content);
    if (type !== "x") return;
    const records = parseRecords(content);
    const path = records.get("GNU.sparse.name") ?? records.get("path");
    if (path !== undefined) this.#next.path = path;
    const size_ = records.get("size");
    if (size_ !== undefined) this.#next.size = Number(size_);
    const real = records.get("GNU.sparse.realsize") ?? records.get("GNU.sparse.size");
    if (real !== undefined) this.#next.realSize = Number(real);
  }

  #tooLarge(): PlatformError {
    const max = formatSize(this.#limits.bytes);
    return new PlatformError("ImageTooLarge", { name: this.#name, max });
  }

  #invalid(reason: string): PlatformError {
    return new PlatformError("ImageInvalid", { name: this.#name, reason });
  }
}

/** A number in octal digits, or in base 256. */
function parseNumber(field: Buffer): number {
  if (field[0]! & 0x80) {
    let value = field[0]! & 0x7f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
    return value;
  }
  const text = field.toString("latin1").replaceAll("\0", " ").trim();
  return text === "" ? 0 : Number(`0o${text}`);
}

/** A text that a NUL may end. */
function readText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("latin1", 0, end < 0 ? field.length : end);
}

function readPath(header: Buffer): string {
  const text = (from: number, to: number) => readText(header.subarray(from, to));
  const prefix = header.toString("latin1", 257, 262) === "ustar" ? text(345, 500) : "";
  return prefix === "" ? text(0, 100) : `${prefix}/${text(0, 100)}`;
}

/** The records `length key=value\n` of an extended header. */
function parseRecords(content: Buffer): Map<string, string> {
  const records = new Map<string, string>();
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(32, at);
    const length = space < 0 ? Number.NaN : Number(content.toString("latin1", at, space));
    if (!Number.isSafeInteger(length) || length <= space - at || at + length > content.length) break;
    const record = content.toString("latin1", space + 1, at + length - 1);
    const equals = record.indexOf("=");
    if (equals > 0) records.set(record.slice(0, equals), record.slice(equals + 1));
    at += length;
  }
  return records;
}
