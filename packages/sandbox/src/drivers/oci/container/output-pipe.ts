import type { Readable } from "node:stream";
import { OutputStream } from "../../common/output-stream.ts";

/** How long output must be quiet after the process ended before a pipe that others still hold open is given up, ms. */
const quietMs = 50;

/** The output of a process that comes through this pipe. */
export function capture(source: Readable): OutputStream {
  const output = new OutputStream(source);
  source.on("data", (chunk: Buffer) => output.write(chunk));
  source.on("end", () => output.end());
  source.on("error", () => output.end());
  return output;
}

/** Resolves when the pipe is at its end, or when the process is gone and nothing more comes although the reader keeps up. */
export async function readOut(source: Readable, output: OutputStream): Promise<void> {
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
        // A round of I/O must have passed after the timer, or a busy event loop would look like quiet.
        setImmediate(() => (output.full || output.chunks !== before ? wait() : done()));
      }, quietMs);
    };
    wait();
    source.once("close", done);
  });
  output.end();
  source.destroy();
}
