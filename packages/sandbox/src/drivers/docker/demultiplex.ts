import type { Readable } from "node:stream";
import { OutputStream } from "../common/output-stream.ts";

const headerBytes = 8;
const stderrType = 2;

/**
 * Splits an engine's connection into stdout and stderr: each frame has a header of 8 bytes (type,
 * three zeros, length); with a terminal there are no frames. A slow reader of one stream holds back
 * both. `intercept` sees the start of stdout and keeps a chunk by returning true.
 */
export function demultiplex(
  source: Readable,
  tty: boolean,
  intercept: (chunk: Buffer) => boolean,
): { stdout: OutputStream; stderr: OutputStream } {
  const paused = new Set<string>();
  const gate = (name: string) => ({
    pause: () => {
      paused.add(name);
      source.pause();
    },
    resume: () => {
      paused.delete(name);
      if (paused.size === 0) source.resume();
    },
  });
  const stdout = new OutputStream(gate("stdout"));
  const stderr = new OutputStream(gate("stderr"));
  let intercepting: boolean | undefined;
  const write = (chunk: Buffer, toStderr: boolean) => {
    if (chunk.length === 0) return;
    if (toStderr) return stderr.write(chunk);
    if (intercepting !== false) intercepting = intercept(chunk);
    if (!intercepting) stdout.write(chunk);
  };

  let header = Buffer.alloc(0);
  let left = 0;
  let toStderr = false;
  source.on("data", (chunk: Buffer) => {
    if (tty) return write(chunk, false);
    let rest = chunk;
    while (rest.length > 0) {
      if (left > 0) {
        const part = rest.subarray(0, left);
        left -= part.length;
        rest = rest.subarray(part.length);
        write(part, toStderr);
        continue;
      }
      const missing = headerBytes - header.length;
      header = Buffer.concat([header, rest.subarray(0, missing)]);
      rest = rest.subarray(missing);
      if (header.length < headerBytes) return;
      toStderr = header[0] === stderrType;
      left = header.readUInt32BE(4);
      header = Buffer.alloc(0);
    }
  });
  return { stdout, stderr };
}
