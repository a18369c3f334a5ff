import { constants } from "node:os";
import type { Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { ExecRequest, ExitStatus, SandboxProcess } from "../driver.ts";
import type { ExecResult, Sandbox } from "../sandbox.ts";

export interface RunOptions {
  /** The command's stdin. */
  input?: Buffer | string;
  /** Default: no limit. */
  timeoutMs?: number;
  /** Kept bytes of stdout and of stderr each; the rest is dropped. Default 16 MiB. */
  maxOutputBytes?: number;
  signal?: AbortSignal;
}

/** `code` is 128 + n after signal n, and 124 after the timeout. */
export interface RunResult extends ExecResult {
  /** Some output was dropped. */
  truncated: boolean;
  timedOut: boolean;
  /** The connection to the command was lost, so its outcome is unknown. */
  isLost?: true;
}

/** Runs a command to its end. Throws what `exec` throws, and the reason of an aborted signal. */
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
      ...(process.isLost && { isLost: true }),
    };
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
  }
}

/** The exit code as a shell shows it. */
export function exitCode(status: ExitStatus): number {
  if (status.code !== null) return status.code;
  return 128 + (constants.signals[status.signal as NodeJS.Signals] ?? 0);
}

/** Reads a stream to its end and keeps the beginning. */
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
  // A command may end before it reads everything.
  stdin.on("error", () => {});
  stdin.end(input);
}
