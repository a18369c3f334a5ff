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
  unanswered,
} from "./files.ts";
import { openOutput } from "./output-stream.ts";
import { pipeToStdin } from "./pipe-to-stdin.ts";

/** How much of a failing script's stderr is kept, bytes. */
const maxErrorBytes = 8_192;
/** Longest first line of a download, bytes. */
const maxHead = 64;

export interface Download {
  /** Size of the file when it was opened, bytes. Files that the kernel makes up have 0 and content nevertheless. */
  size: number;
  /** Time of the last change, ms since the epoch. */
  modifiedAt: number;
  /** Fails when the file turns out shorter than `size`. Ending it early ends the command inside. */
  content: Readable;
}

/**
 * Opens a file of any size for reading; nothing of it is kept in memory. With `facts` the content stays empty.
 * Throws FileNotFound, FileForbidden, NotAFile, and SandboxFailed when the sandbox does not answer.
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
    if (failed.timedOut) throw unanswered();
    await checkAlive(sandbox, failed.code);
    throw toFileError(path, "read", failed);
  }
  const parts = what === "facts" ? [] : rest(opened.chunks, Number(size));
  return { size: Number(size), modifiedAt: Number(seconds) * 1_000, content: opened.stream(parts) };
}

/** The announced number of bytes; everything where none were announced. */
async function* rest(chunks: AsyncIterable<Buffer>, size: number): AsyncGenerator<Buffer> {
  let left = size || Number.POSITIVE_INFINITY;
  for await (const chunk of chunks) {
    const part = chunk.length > left ? chunk.subarray(0, left) : chunk;
    left -= part.length;
    if (part.length > 0) yield part;
    if (left === 0) return;
  }
  if (left > 0 && size > 0)
    throw new PlatformError("SandboxFailed", "The file became shorter while it was read; try again.");
}

/**
 * Writes a file of any size from a stream, which is read only as fast as the sandbox takes it. Until all of it has arrived the old file
 * stays, and nothing of a cut stream is left. `size` is the number of bytes to come, where it is known.
 * Throws the source's error, FileForbidden, NotAFile, and InvalidParameter with the reason (directory, full disk, …).
 */
export async function upload(
  sandbox: CommandRunner,
  path: string,
  source: Readable,
  size: number | undefined,
): Promise<void> {
  const word = randomSuffix();
  const args = (length: number, what: "all" | "take" | "keep") => [
    checkPath(path),
    String(length),
    word,
    what,
  ];
  const process = await sandbox.exec(
    toScriptCommand(sandbox, writeScript, size === undefined ? args(0, "take") : args(size, "all")),
  );
  process.stdout.resume();
  const errors = collect(process.stderr, maxErrorBytes);
  const { bytes, cut } = await pipeToStdin(source, process.stdin);
  const code = exitCode(await process.exit);
  const failed = code !== 0 && code !== codes.inPlace;
  if (size === undefined && code === 0) {
    // A length that no file has: the part that arrived is removed.
    const kept = await runScript(sandbox, writeScript, args(cut ? -1 : bytes, "keep"));
    if (!cut && kept.code !== 0) throw toFileError(path, "written", kept);
  }
  if (cut) throw cut;
  if (failed) {
    await checkAlive(sandbox, code);
    throw toFileError(path, "written", { code, stderr: (await errors).kept });
  }
}
