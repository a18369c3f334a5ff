import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { collect, exitCode } from "../shell/run.ts";
import { codes, downloadScript, writeScript } from "./file-scripts.ts";
import {
  type CommandRunner,
  checkAlive,
  checkPath,
  randomSuffix,
  runScript,
  scriptTimeoutMs,
  toFileError,
  toScriptCommand,
} from "./files.ts";
import { openOutput } from "./output-stream.ts";
import { pipeToStdin } from "./pipe-to-stdin.ts";

/** Kept stderr of a failing script, bytes. */
const maxErrorBytes = 8_192;
/** Maximum length of the first line of a download, bytes. */
const maxHead = 64;

export interface Download {
  /** Size of the opened file, bytes; 0 for files of the kernel that have content nevertheless. */
  size: number;
  /** Last modification, ms since the epoch. */
  modifiedAt: number;
  /** Fails when the file becomes shorter than `size`. Destroying it ends the command inside. */
  content: Readable;
}

/**
 * Opens a file of any size as a stream; with `facts` the content is empty. Throws FileNotFound,
 * FileForbidden, NotAFile, and SandboxFailed when the sandbox does not answer.
 */
export async function download(
  sandbox: CommandRunner,
  path: string,
  what: "content" | "facts" = "content",
): Promise<Download> {
  const opened = await openOutput(sandbox, downloadScript, [checkPath(path), what], {
    maxHead,
    headMs: scriptTimeoutMs,
  });
  const [, size, seconds] = /^(\d+) (\d+)$/.exec(opened.head ?? "") ?? [];
  if (size === undefined) {
    const failed = await opened.end();
    if (failed.timedOut) throw new PlatformError("SandboxUnresponsive");
    await checkAlive(sandbox, failed.code);
    throw toFileError(path, "read", failed);
  }
  const parts = what === "facts" ? [] : rest(opened.chunks, Number(size));
  return { size: Number(size), modifiedAt: Number(seconds) * 1_000, content: opened.stream(parts) };
}

/** The first `size` bytes; everything for size 0. */
async function* rest(chunks: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  let left = size || Number.POSITIVE_INFINITY;
  for await (const chunk of chunks) {
    const part = chunk.length > left ? chunk.subarray(0, left) : chunk;
    left -= part.length;
    if (part.length > 0) yield part;
    if (left === 0) return;
  }
  if (left > 0 && size > 0) throw new PlatformError("FileShrank");
}

/**
 * Writes a file of any size from a stream with backpressure. The old file stays until the whole
 * stream has arrived. `size` is the length of the stream, if known. Returns the number of bytes.
 * Throws the source's error, FileForbidden, NotAFile, and InvalidParameter with the reason (full
 * disk, …).
 */
export async function upload(
  sandbox: CommandRunner,
  path: string,
  source: Readable,
  size: number | undefined,
): Promise<number> {
  const word = randomSuffix();
  const target = checkPath(path);
  const args = (length: number, mode: "all" | "take" | "keep") => [target, String(length), word, mode];
  const process = await sandbox.exec(
    toScriptCommand(sandbox, writeScript, size === undefined ? args(0, "take") : args(size, "all")),
  );
  process.stdout.resume();
  const errors = collect(process.stderr, maxErrorBytes);
  const { bytes, sourceError } = await pipeToStdin(source, process.stdin);
  const code = exitCode(await process.exit);
  const failed = code !== 0 && code !== codes.inPlace;
  if (size === undefined && code === 0) {
    // No file has the length -1, so the script removes an incomplete file.
    const kept = await runScript(sandbox, writeScript, args(sourceError ? -1 : bytes, "keep"));
    if (!sourceError && kept.code !== 0) throw toFileError(path, "written", kept);
  }
  if (sourceError) throw sourceError;
  if (failed) {
    await checkAlive(sandbox, code);
    throw toFileError(path, "written", { code, stderr: (await errors).kept });
  }
  return bytes;
}
