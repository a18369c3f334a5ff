import type { Readable } from "node:stream";
import { OutputStream } from "../../common/output-stream.ts";

/** Silence after which a pipe is closed although other processes still hold it open, ms. */
const quietMs = 50;

/** The output of a process that comes through this pipe. */
export function captureOutput(source: Readable): OutputStream {
  const output = new OutputStream(source);
  source.on("data", (chunk: Buffer) => output.write(chunk));
  source.on("end", () => output.end());
  source.on("error", () => output.end());
  return output;
}

/**
 * Called when the process has ended. Resolves at the end of the pipe, or when no more output comes
 * although the reader keeps up.
 */
export async function drainOutput(source: Readable, output: OutputStream): Promise<void> {
  if (source.readableEnded || source.destroyed) return output.end();
  await new Promise<void>((resolve) => {
    const done = () => {
      clearTimeout(timer);
      resolve();
    };
    let timer: NodeJS.Timeout;
    const wait = () => {
      const before = output.chunks;
      timer = setTimeout(() => {
        // After a round of I/O, or a busy event loop would look like silence.
        setImmediate(() => (output.full || output.chunks !== before ? wait() : done()));
      }, quietMs);
    };
    wait();
    source.once("close", done);
  });
  output.end();
  source.destroy();
}
