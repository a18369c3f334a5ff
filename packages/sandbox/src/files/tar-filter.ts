import { PlatformError } from "@sandpiper/core/errors";

const blockSize = 512;
/** Maximum size of a long name, and of a pax header, bytes. */
const maxMetaBytes = 1_048_576;

export interface TarEntry {
  /** As in the archive, without a final slash. */
  name: string;
  /** `file`, `directory`, or `other`: a link or a special file. */
  kind: "file" | "directory" | "other";
  /** Bytes. */
  size: number;
}

export interface TarFilter {
  keep(entry: TarEntry): boolean;
  /** A file that is added at the end of a complete archive. */
  last(): { name: string; content: Buffer } | undefined;
}

/** The data that follows a header. */
interface Body {
  /** Bytes, padding included. */
  left: number;
  passes: boolean;
  /** It is a long name or a pax header, which is held until its entry comes. */
  meta: { type: string; size: number } | undefined;
}

/**
 * Passes the entries of an uncompressed tar on that the filter keeps. Memory is bounded by a chunk
 * and a name. Throws ArchiveFailed for other data than a tar.
 */
export async function* filterTar(
  chunks: AsyncIterable<Buffer>,
  { keep, last }: TarFilter,
): AsyncGenerator<Buffer> {
  let rest: Buffer = Buffer.alloc(0);
  const body: Body = { left: 0, passes: false, meta: undefined };
  /** Long names that belong to the next entry, as blocks, and its name. */
  let held: Buffer[] = [];
  let longName: string | undefined;
  let ended = false;
  for await (const chunk of chunks) {
    if (ended) continue;
    const data = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
    const out: Buffer[] = [];
    let at = 0;
    while (at < data.length) {
      if (body.left > 0) {
        const part = data.subarray(at, at + body.left);
        at += part.length;
        body.left -= part.length;
        if (body.meta) held.push(Buffer.from(part));
        else if (body.passes) out.push(part);
        if (body.meta && body.left === 0) {
          longName = readMeta(body.meta.type, held, body.meta.size) ?? longName;
          body.meta = undefined;
        }
        continue;
      }
      if (data.length - at < blockSize) break;
      const header = data.subarray(at, at + blockSize);
      at += blockSize;
      if (header[0] === 0 && header.every((byte) => byte === 0)) {
        ended = true;
        break;
      }
      const size = readSize(header);
      const type = String.fromCharCode(header[156]!);
      body.left = Math.ceil(size / blockSize) * blockSize;
      if ("LKxg".includes(type)) {
        if (size > maxMetaBytes) throw notTar();
        held.push(Buffer.from(header));
        body.meta = { type, size };
        continue;
      }
      const name = (longName ?? readName(header)).replace(/(?<=.)\/$/, "");
      const kind = type === "5" ? "directory" : "\u00000".includes(type) || type === "7" ? "file" : "other";
      body.passes = keep({ name, kind, size: kind === "file" ? size : 0 });
      if (body.passes) out.push(...held, header);
      held = [];
      longName = undefined;
    }
    rest = Buffer.from(data.subarray(at));
    // Copied, because the source may use the memory of its chunks again.
    if (out.length > 0) yield Buffer.concat(out);
  }
  if (!ended) throw notTar();
  const added = last();
  if (added) yield packFile(added);
  yield Buffer.alloc(2 * blockSize);
}

function notTar(): PlatformError {
  return new PlatformError("ArchiveFailed", {
    action: "packed from",
    folder: "the sandbox",
    reason: "no tar",
  });
}

/** An octal number, or a binary one for large files. */
function readSize(header: Buffer): number {
  if (header[124]! >= 0x80) return Number(header.readBigUInt64BE(128));
  const size = Number.parseInt(readText(header, 124, 12).trim() || "0", 8);
  if (!Number.isSafeInteger(size) || size < 0) throw notTar();
  return size;
}

function readName(header: Buffer): string {
  const name = readText(header, 0, 100);
  const prefix = header.toString("latin1", 257, 263) === "ustar\0" ? readText(header, 345, 155) : "";
  return prefix ? `${prefix}/${name}` : name;
}

/** The name in a header for a long name or path; undefined for one for something else. */
function readMeta(type: string, blocks: readonly Buffer[], size: number): string | undefined {
  if (type !== "L" && type !== "x") return undefined;
  const all = Buffer.concat(blocks);
  const data = all.subarray(all.length - Math.ceil(size / blockSize) * blockSize).subarray(0, size);
  if (type === "L") return readText(data, 0, data.length);
  let path: string | undefined;
  // Records of pax: "<length> <key>=<value>\n".
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at);
    const length = Number.parseInt(data.toString("latin1", at, space), 10);
    if (space < 0 || !(length > space - at)) break;
    const record = data.toString("utf8", space + 1, at + length - 1);
    if (record.startsWith("path=")) path = record.slice(5);
    at += length;
  }
  return path;
}

function readText(data: Buffer, from: number, length: number): string {
  const part = data.subarray(from, from + length);
  const end = part.indexOf(0);
  return part.toString("utf8", 0, end < 0 ? part.length : end);
}

/** A file in the ustar format, with its padding. */
function packFile({ name, content }: { name: string; content: Buffer }): Buffer {
  const header = Buffer.alloc(blockSize);
  header.write(name, 0, 100, "utf8");
  for (const [at, text] of [
    [100, "0000644\0"],
    [108, "0000000\0"],
    [116, "0000000\0"],
    [124, `${content.length.toString(8).padStart(11, "0")}\0`],
    [136, "00000000000\0"],
    [148, "        "],
    [156, "0"],
    [257, "ustar\x0000"],
  ] as const)
    header.write(text, at, "latin1");
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return Buffer.concat([
    header,
    content,
    Buffer.alloc((blockSize - (content.length % blockSize)) % blockSize),
  ]);
}
