export const blockBytes = 512;

/** What the headers of an entry say. */
export interface TarEntry {
  /** The type flag: "0" is a file, "5" a folder. */
  type: string;
  /** As in the archive. */
  path: string;
  /** Bytes of the content in the archive, without the padding. */
  size: number;
  /** Bytes of the file, holes included, as the archive declares them. */
  realSize: number;
  /** In the form of PAX 1.0: a map of the data comes before the data. */
  hasMap: boolean;
}

/** What extended headers say of the next entry. */
export interface TarExtension {
  path?: string;
  size?: number;
  realSize?: number;
  hasMap?: boolean;
}

/** Says of a stream what is wrong, such as "is no tar". */
export class TarInvalid extends Error {}

/** Types without content, whatever size their header has. */
const headerOnly: ReadonlySet<string> = new Set(["1", "2", "3", "4", "5", "6"]);

/** Whether a header is one for the next entry. */
export function isExtension(type: string): boolean {
  return type === "x" || type === "g" || type === "L" || type === "K";
}

/** Reads a block that is no block of zeros. Throws TarInvalid. */
export function readHeader(block: Buffer, next: TarExtension): TarEntry {
  if (!hasChecksum(block)) throw new TarInvalid("is no tar");
  const type = String.fromCharCode(block[156] || 48);
  const size = next.size ?? readNumber(block.subarray(124, 136));
  const content = headerOnly.has(type) ? 0 : size;
  const { path = readPath(block), hasMap = false, realSize = content } = next;
  const real = type === "S" ? readNumber(block.subarray(483, 495)) : realSize;
  return { type, path, size: content, realSize: real, hasMap };
}

/** Adds what the content of an extended header says. Throws TarInvalid. */
export function readExtension(type: string, content: Buffer, next: TarExtension): void {
  if (type === "L") next.path = readText(content);
  if (type !== "x" && type !== "g") return;
  const records = readRecords(content);
  // Programs disagree about whether these hold for all entries that follow.
  if (type === "g") {
    if ([...records.keys()].some((key) => /^(?:path|size|GNU\.)/.test(key)))
      throw new TarInvalid("gives all its files one path or size");
    return;
  }
  const path = records.get("GNU.sparse.name") ?? records.get("path");
  if (path !== undefined) next.path = readText(path);
  const size = records.get("size");
  if (size !== undefined) next.size = readDecimal(size);
  const real = records.get("GNU.sparse.realsize") ?? records.get("GNU.sparse.size");
  if (real !== undefined) next.realSize = readDecimal(real);
  if (records.get("GNU.sparse.major")?.toString() === "1") next.hasMap = true;
}

/** A block with the header of a file, or of an extended header. */
export function writeHeader({
  path,
  size,
  type = "0",
  mode = 0o644,
  mtime = 0,
}: {
  /** At most 100 bytes. */
  path: string;
  /** Bytes. */
  size: number;
  type?: string;
  mode?: number;
  /** Seconds. */
  mtime?: number;
}): Buffer {
  const block = Buffer.alloc(blockBytes);
  for (const [at, text] of [
    [100, octal(mode, 7)],
    [108, octal(0, 7)],
    [116, octal(0, 7)],
    [136, octal(Math.min(Math.max(0, Math.floor(mtime)), maxOctal), 11)],
    [156, type],
    [257, "ustar\x0000"],
  ] as const)
    block.write(text, at, "latin1");
  return renameHeader(block, path, size);
}

/** A copy of a header with another path, of which 100 bytes are kept, and another size. */
export function renameHeader(header: Buffer, path: string, size: number): Buffer {
  const block = Buffer.from(header);
  block.fill(0, 0, 100).write(path, 0, 100, "utf8");
  block.fill(0, 124, 136).fill(0, 345, 500);
  if (size <= maxOctal) block.write(octal(size, 11), 124, "latin1");
  else {
    block[124] = 0x80;
    block.writeBigUInt64BE(BigInt(size), 128);
  }
  block.write(`${octal(sumOf(block), 6)} `, 148, "latin1");
  return block;
}

const maxOctal = 8 ** 11 - 1;

function octal(value: number, digits: number): string {
  return `${value.toString(8).padStart(digits, "0")}\0`;
}

/** An extended header with these records, and its content. */
export function writeExtension(records: Readonly<Record<string, string>>): Buffer {
  const content = Buffer.concat(
    Object.entries(records).map(([key, value]) => {
      const rest = Buffer.from(` ${key}=${value}\n`);
      let length = rest.length + 1;
      while (String(length).length + rest.length !== length) length = String(length).length + rest.length;
      return Buffer.concat([Buffer.from(String(length)), rest]);
    }),
  );
  return Buffer.concat([
    writeHeader({ path: "PaxHeader", type: "x", size: content.length }),
    content,
    padding(content.length),
  ]);
}

/** Zeros that fill the last block of a content. */
export function padding(size: number): Buffer {
  return Buffer.alloc(paddedSize(size) - size);
}

export function paddedSize(size: number): number {
  return Math.ceil(size / blockBytes) * blockBytes;
}

function hasChecksum(block: Buffer): boolean {
  return sumOf(block) === Number.parseInt(block.toString("latin1", 148, 156), 8);
}

/** The sum of all bytes, with blanks for the sum itself. */
function sumOf(block: Buffer): number {
  let sum = 8 * 32;
  for (let at = 0; at < 148; at++) sum += block[at]!;
  for (let at = 156; at < blockBytes; at++) sum += block[at]!;
  return sum;
}

/** A number in octal digits, or in base 256. */
function readNumber(field: Buffer): number {
  let value = 0;
  if (field[0]! & 0x80) {
    value = field[0]! & 0x7f;
    for (const byte of field.subarray(1)) value = value * 256 + byte;
  } else {
    const [text = ""] = field.toString("latin1").trim().split("\0");
    if (!/^[0-7]*$/.test(text.trim())) throw new TarInvalid("has an entry of no valid size");
    value = Number.parseInt(text || "0", 8);
  }
  if (!Number.isSafeInteger(value)) throw new TarInvalid("has an entry of no valid size");
  return value;
}

function readDecimal(text: Buffer): number {
  const value = /^\d{1,16}$/.test(text.toString("latin1")) ? Number(text.toString("latin1")) : Number.NaN;
  if (!Number.isSafeInteger(value)) throw new TarInvalid("has an entry of no valid size");
  return value;
}

/** A text that a NUL may end. */
function readText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? field.length : end);
}

function readPath(block: Buffer): string {
  const name = readText(block.subarray(0, 100));
  // GNU's own form has other data there.
  const prefix = block.toString("latin1", 257, 263) === "ustar\0" ? readText(block.subarray(345, 500)) : "";
  return prefix ? `${prefix}/${name}` : name;
}

/** The records `length key=value\n` of an extended header. Throws TarInvalid. */
function readRecords(content: Buffer): Map<string, Buffer> {
  const records = new Map<string, Buffer>();
  for (let at = 0; at < content.length; ) {
    const space = content.subarray(at, at + 20).indexOf(32);
    const length = space < 0 ? Number.NaN : Number(content.toString("latin1", at, at + space));
    if (!Number.isSafeInteger(length) || length <= space + 1 || at + length > content.length)
      throw new TarInvalid("has a damaged extended header");
    const record = content.subarray(at + space + 1, at + length - 1);
    const equals = record.indexOf(61);
    if (equals > 0) records.set(record.toString("latin1", 0, equals), record.subarray(equals + 1));
    at += length;
  }
  return records;
}
