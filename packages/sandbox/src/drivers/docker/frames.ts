import type { Readable } from "node:stream";
import { OutputStream } from "../common/output-stream.ts";

const headerBytes = 8;
const stderrType = 2;

/** Output of a command, taken apart. */
export interface Outputs {
  stdout: OutputStream;
  stderr: OutputStream;
}

/**
 * Takes an engine's connection apart into stdout and stderr: each frame has a header of 8 bytes (type, three zeros, length) unless there is a
 * terminal. A reader that is slow on one of them holds back both. `first` sees the beginning of stdout and may keep it by giving true.
 */
export function takeApart(source: Readable, tty: boolean, first: (chunk: Buffer) => boolean): Outputs {
  const held = new Set<string>();
  const gate = (name: string) => ({
    pause: () => {
      held.add(name);
      source.pause();
    },
    resume: () => {
      held.delete(name);
      if (held.size === 0) source.resume();
    },
  });
  const stdout = new OutputStream(gate("stdout"));
  const stderr = new OutputStream(gate("stderr"));
  let keeping: boolean | undefined;
  const write = (chunk: Buffer, toStderr: boolean) => {
    if (chunk.length === 0) return;
    if (toStderr) return stderr.write(chunk);
    if (keeping !== false) keeping = first(chunk);
    if (!keeping) stdout.write(chunk);
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
