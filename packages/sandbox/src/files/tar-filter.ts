import { PlatformError } from "@sandpiper/core/errors";
import { blockBytes, type TarEntry as Entry, padding, TarInvalid, writeHeader } from "../tar/tar-header.ts";
import { TarReader } from "../tar/tar-reader.ts";

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

/**
 * Passes the entries of an uncompressed tar on that the filter keeps. Memory is bounded by a chunk
 * and the headers of an entry. Throws ArchiveFailed for other data than a tar.
 */
export async function* filterTar(
  chunks: AsyncIterable<Buffer>,
  { keep, last }: TarFilter,
): AsyncGenerator<Buffer> {
  const reader = new TarReader();
  let passes = false;
  for await (const chunk of chunks) {
    const out: Buffer[] = [];
    try {
      for (const part of reader.read(chunk)) {
        if (part.kind === "content" && passes) out.push(part.bytes);
        if (part.kind !== "entry") continue;
        passes = keep(describe(part.entry));
        if (passes) out.push(...part.blocks);
      }
    } catch (error) {
      throw error instanceof TarInvalid ? invalid(error.message) : error;
    }
    // Copied, because the source may use the memory of its chunks again.
    if (out.length > 0) yield Buffer.concat(out);
  }
  if (!reader.hasEnded) throw invalid("has no end");
  const added = last();
  if (added) yield packFile(added);
  yield Buffer.alloc(2 * blockBytes);
}

function invalid(reason: string): PlatformError {
  return new PlatformError("ArchiveFailed", {
    action: "packed from",
    folder: "the sandbox",
    reason: `it ${reason}`,
  });
}

function describe({ type, path, realSize }: Entry): TarEntry {
  const isFile = type === "0" || type === "7" || type === "S";
  const kind = type === "5" ? "directory" : isFile ? "file" : "other";
  return { name: path.replace(/(?<=.)\/$/, ""), kind, size: isFile ? realSize : 0 };
}

function packFile({ name, content }: { name: string; content: Buffer }): Buffer {
  return Buffer.concat([writeHeader({ path: name, size: content.length }), content, padding(content.length)]);
}
