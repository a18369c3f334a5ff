import { Readable } from "node:stream";
import { collect, exitCode } from "../shell/run.ts";
import { type CommandRunner, toScriptCommand } from "./files.ts";
import { freeBuffers } from "./free-buffers.ts";

/** Kept stderr of a failing script, bytes. */
const maxErrorBytes = 8_192;
/** Limit from the end of a script's output to its exit, ms. */
const exitTimeoutMs = 5_000;

/** The output of a script whose first line describes the rest. */
export interface OpenedOutput {
  /** The first line; undefined when it was late or too long. */
  head: string | undefined;
  /** The output after the first line, with backpressure. */
  chunks: AsyncIterable<Buffer>;
  /** Ends the script. */
  end(): Promise<{ code: number; stderr: Buffer; timedOut: boolean }>;
  /** Waits for the script's own end. */
  ended(): Promise<{ code: number; stderr: Buffer }>;
  /** A stream of these parts; destroying it ends the script. */
  stream(parts: Iterable<Buffer> | AsyncIterable<Buffer>): Readable;
}

/** Starts a script and reads its first line within the limits. Throws what `exec` throws. */
export async function openOutput(
  sandbox: CommandRunner,
  text: string,
  args: string[],
  { maxHead, headMs }: { maxHead: number; headMs: number },
): Promise<OpenedOutput> {
  const process = await sandbox.exec(toScriptCommand(sandbox, text, args));
  process.stdin.end();
  const errors = collect(process.stderr, maxErrorBytes);
  const source = process.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    process.kill();
    process.stdout.destroy();
  }, headMs);
  let read: Buffer = Buffer.alloc(0);
  let lineEnd = -1;
  let over = false;
  try {
    while (lineEnd === -1 && read.length <= maxHead) {
      const { value, done } = await source.next();
      over = done === true;
      if (over) break;
      read = Buffer.concat([read, value]);
      lineEnd = read.indexOf("\n");
    }
  } catch (error) {
    if (!timedOut) throw error;
  } finally {
    clearTimeout(timer);
  }
  async function* chunks(): AsyncGenerator<Buffer> {
    const first = read.subarray(lineEnd + 1);
    for (let chunk: Buffer | undefined = first; chunk !== undefined; ) {
      if (chunk.length > 0) yield chunk;
      const next: IteratorResult<Buffer> = await source.next();
      chunk = next.done ? undefined : next.value;
    }
  }
  const ended = async () => ({ code: exitCode(await process.exit), stderr: (await errors).kept });
  return {
    head: lineEnd === -1 ? undefined : read.toString("utf8", 0, lineEnd),
    chunks: { [Symbol.asyncIterator]: () => freeBuffers(chunks()) },
    ended,
    async end() {
      // The exit code of a script that ended by itself has the reason.
      if (!over) process.kill();
      process.stdout.destroy();
      // A sandbox paused before the exit reports it only after its resume.
      const late = setTimeout(() => {
        timedOut = true;
        process.kill();
      }, exitTimeoutMs);
      try {
        const end = await ended();
        return { ...end, timedOut };
      } finally {
        clearTimeout(late);
      }
    },
    stream(parts) {
      const stream = Readable.from(parts, { objectMode: false });
      // Also when the stream is never read.
      stream.once("close", () => {
        process.kill();
        // Unread output would keep the pipe open and hide the exit.
        process.stdout.destroy();
      });
      return stream;
    },
  };
}
