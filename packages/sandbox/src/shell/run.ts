import { constants } from "node:os";
import type { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { ExecRequest, ExitStatus, SandboxProcess } from "../driver.ts";
import type { ExecResult, Sandbox } from "../sandbox.ts";

export interface RunOptions {
  /** Written to the command's stdin, which is closed after it. */
  input?: Buffer | string;
  /** Ends the command after this time, ms. Default: no limit. */
  timeoutMs?: number;
  /** How much of stdout and of stderr is kept, bytes each; what comes after it is read and dropped. Default 16 MiB. */
  maxOutputBytes?: number;
  /** Ends the command. */
  signal?: AbortSignal;
}

/** `code` is 128 + n when signal n ended the command, and 124 when the time-out did. */
export interface RunResult extends ExecResult {
  /** Some output was dropped. */
  truncated: boolean;
  timedOut: boolean;
}

/**
 * Runs a command to its end and gives what it wrote. Memory is bounded by `maxOutputBytes`.
 * Throws what `exec` throws, and the signal's reason when it was aborted.
 */
export async function runToEnd(
  sandbox: Pick<Sandbox, "exec">,
  request: ExecRequest,
  options: RunOptions = {},
): Promise<RunResult> {
  const { input, timeoutMs, maxOutputBytes = 16 * 2 ** 20, signal } = options;
  signal?.throwIfAborted();
  const process = await sandbox.exec(request);
  let timedOut = false;
  const onAbort = () => process.kill();
  signal?.addEventListener("abort", onAbort);
  if (signal?.aborted) onAbort();
  const timer =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => {
          timedOut = true;
          process.kill();
        }, timeoutMs);
  try {
    const outputs = [process.stdout, process.stderr].map((stream) => collect(stream, maxOutputBytes));
    writeInput(process, input);
    const status = await process.exit;
    const [stdout, stderr] = await Promise.all(outputs);
    signal?.throwIfAborted();
    return {
      code: timedOut ? 124 : exitCode(status),
      stdout: stdout!.kept,
      stderr: stderr!.kept,
      truncated: stdout!.dropped || stderr!.dropped,
      timedOut,
    };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** The number that a shell shows for an exit status. */
export function exitCode(status: ExitStatus): number {
  if (status.code !== null) return status.code;
  return 128 + (constants.signals[status.signal as NodeJS.Signals] ?? 0);
}

/** Keeps the beginning of a stream and reads the rest. */
export async function collect(
  stream: Readable,
  maxBytes: number,
): Promise<{ kept: Buffer; dropped: boolean }> {
  const chunks: Buffer[] = [];
  let room = maxBytes;
  let dropped = false;
  stream.on("data", (chunk: Buffer) => {
    if (chunk.length > room) dropped = true;
    if (room > 0) chunks.push(chunk.length > room ? Buffer.from(chunk.subarray(0, room)) : chunk);
    room = Math.max(0, room - chunk.length);
  });
  await finished(stream, { writable: false }).catch(() => {});
  return { kept: Buffer.concat(chunks), dropped };
}

function writeInput({ stdin }: SandboxProcess, input: Buffer | string | undefined): void {
  // A command may end without reading all of it.
  stdin.on("error", () => {});
  stdin.end(input);
}
