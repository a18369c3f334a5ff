import { Readable } from "node:stream";
import { collect, exitCode } from "../shell/run.ts";
import { type CommandRunner, toScriptCommand } from "./files.ts";

/** How much of a failing script's stderr is kept, bytes. */
const maxErrorBytes = 8_192;

/** How long the end of a script is waited for once its output has ended, ms. */
const endMs = 5_000;

/** The output of a script whose first line says what comes. */
export interface OpenedOutput {
  /** The first line; undefined where none came, in time and in the length that was allowed. */
  head: string | undefined;
  /** What comes after it. It is read only as fast as it is taken. */
  chunks: AsyncIterable<Buffer>;
  /** Ends the script and gives how it ended. */
  end(): Promise<{ code: number; stderr: Buffer; timedOut: boolean }>;
  /** How the script ends by itself. */
  ended(): Promise<{ code: number; stderr: Buffer }>;
  /** A stream of these parts; ending it early, or before it begins, ends the script. */
  stream(parts: Iterable<Buffer> | AsyncIterable<Buffer>): Readable;
}

/** Starts a script and reads the first line of its output: of at most `maxHead` bytes, within `headMs`. Throws what `exec` throws. */
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
    chunks: { [Symbol.asyncIterator]: chunks },
    ended,
    async end() {
      // A script that ended by itself tells by its code why.
      if (!over) process.kill();
      process.stdout.destroy();
      // A sandbox that is paused between the output and the end tells of the end when it goes on.
      const late = setTimeout(() => {
        timedOut = true;
        process.kill();
      }, endMs);
      try {
        const end = await ended();
        return { ...end, timedOut };
      } finally {
        clearTimeout(late);
      }
    },
    stream(parts) {
      const stream = Readable.from(parts, { objectMode: false });
      // Also where nobody ever begins to read.
      stream.once("close", () => {
        process.kill();
        // Without a reader the rest would stay in the pipe, and the end of the process unseen.
        process.stdout.destroy();
      });
      return stream;
    },
  };
}
