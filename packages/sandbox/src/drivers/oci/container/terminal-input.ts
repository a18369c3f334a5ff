import { writeSync } from "node:fs";
import { Writable } from "node:stream";

/** Pause before the next write to a full terminal, ms. */
const retryWriteMs = 5;

/**
 * The input of a terminal by its non-blocking descriptor, which is valid while `isOpen`. A write of
 * libuv would spin on the event loop while the terminal is full. Nothing is written before `ready`.
 */
export function makeTerminalInput(fd: number, isOpen: () => boolean, ready: Promise<unknown>): Writable {
  const write = (bytes: Buffer, done: () => void): void => {
    if (!isOpen()) return done();
    let written = 0;
    try {
      written = writeSync(fd, bytes);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") return done();
    }
    if (written === bytes.length) return done();
    setTimeout(() => write(bytes.subarray(written), done), retryWriteMs);
  };
  return new Writable({
    construct(done) {
      void ready.then(() => done());
    },
    write(chunk: Buffer, _encoding, done) {
      write(chunk, () => done());
    },
    final(done) {
      write(Buffer.from("\u0004"), () => done());
    },
  });
}
