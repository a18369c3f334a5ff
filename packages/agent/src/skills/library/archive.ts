import { createGunzip, type Gunzip } from "node:zlib";
import { PlatformError } from "@sandpiper/core/errors";
import { Parser, type ReadEntry } from "tar";
import { maxBytes, maxFileBytes } from "../skill-files.ts";
import type { SkillText } from "./files.ts";

/** Limits of an unpacked archive. */
const maxUnpacked = 128 * 1024 * 1024;
const maxEntries = 50_000;

/**
 * Reads the wanted text files of an untrusted `.tar.gz` in memory, ignoring links and stripping the
 * top folder. Throws OutboundFailed when it is invalid or too large.
 */
export async function readArchive(
  source: AsyncIterable<Uint8Array>,
  isWanted: (path: string) => boolean,
): Promise<SkillText[]> {
  const files: SkillText[] = [];
  let totalBytes = 0;
  let entries = 0;
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => {});
  const count = () => {
    entries += 1;
    if (entries > maxEntries) failed.reject(unusable("it has too many entries"));
  };
  const parser = new Parser({
    strict: true,
    onReadEntry: (entry: ReadEntry) => {
      count();
      const path = entry.path.replace(/^(\.\/)*[^/]*\//, "");
      const isText =
        (entry.type === "File" || entry.type === "OldFile") && entry.size <= maxFileBytes && isWanted(path);
      if (!isText || totalBytes + entry.size > maxBytes || path.split("/").includes(".."))
        return void entry.resume();
      totalBytes += entry.size;
      const pieces: Buffer[] = [];
      entry.on("data", (piece: Buffer) => pieces.push(piece));
      entry.on("end", () => files.push({ path, content: Buffer.concat(pieces).toString("utf8") }));
    },
  });
  // Heads of an entry are entries of the archive, too.
  parser.on("meta", count);
  parser.on("error", (error: unknown) => failed.reject(error));
  const ended = new Promise<void>((resolve) => parser.once("end", resolve));
  try {
    const fed = feed(parser, source, () => entries <= maxEntries);
    await Promise.race([fed.then(() => ended), failed.promise]);
  } catch (error) {
    throw error instanceof PlatformError ? error : unusable("it is damaged");
  }
  return files;
}

/** Feeds the unpacked bytes to the parser while it `goesOn`. */
async function feed(parser: Parser, source: AsyncIterable<Uint8Array>, goesOn: () => boolean): Promise<void> {
  const gunzip = createGunzip();
  const packed = (async () => {
    try {
      for await (const piece of source) {
        if (!gunzip.write(piece)) await drained(gunzip);
        if (gunzip.destroyed) return;
      }
      gunzip.end();
    } catch (error) {
      gunzip.destroy(error as Error);
    }
  })();
  let total = 0;
  try {
    for await (const piece of gunzip as AsyncIterable<Buffer>) {
      // The parser would decompress again, without a limit.
      if (total === 0 && isCompressed(piece)) throw unusable("it is compressed twice");
      total += piece.length;
      if (total > maxUnpacked) throw unusable("it is too large");
      const isRead = parser.write(piece);
      if (!goesOn()) return;
      if (!isRead) await new Promise((resolve) => parser.once("drain", () => resolve(undefined)));
    }
    parser.end();
  } finally {
    gunzip.destroy();
    await packed;
  }
}

/** Waits until a stream takes more, or is closed. */
function drained(stream: Gunzip): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      stream.off("drain", done).off("close", done);
      resolve();
    };
    stream.on("drain", done).on("close", done);
  });
}

function isCompressed(start: Buffer): boolean {
  return start.readUInt16BE(0) === 0x1f8b || (start.length >= 4 && start.readUInt32BE(0) === 0x28b52ffd);
}

function unusable(reason: string): PlatformError {
  return new PlatformError("ArchiveInvalid", { reason });
}
