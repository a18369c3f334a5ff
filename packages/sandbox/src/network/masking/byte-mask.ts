import { Transform } from "node:stream";
import { setImmediate } from "node:timers/promises";
import { overlapLength, type Pattern } from "./patterns.ts";

/** Bytes that are searched before other work gets its turn. */
const sliceBytes = 16_384;
const star = 0x2a;

/**
 * Replaces patterns in a stream by stars of the same length. Holds back only what may be the
 * beginning of a pattern. `patterns` is asked at each piece, because secrets may be sent meanwhile.
 */
export class ByteMask {
  readonly #patterns: () => readonly Pattern[];
  #held: Buffer = Buffer.alloc(0);
  /** How many of the held bytes are known to be of a secret. */
  #known = 0;

  constructor(patterns: () => readonly Pattern[]) {
    this.#patterns = patterns;
  }

  write(piece: Buffer): Buffer {
    // A copy, because the piece belongs to its sender.
    const bytes = Buffer.concat([this.#held, piece]);
    const found: [from: number, to: number][] = [[0, this.#known]];
    let keep = 0;
    for (const pattern of this.#patterns()) {
      const { length } = pattern.bytes;
      for (let at = bytes.indexOf(pattern.bytes); at >= 0; at = bytes.indexOf(pattern.bytes, at + length))
        found.push([at, at + length]);
      keep = Math.max(keep, overlapLength(bytes, pattern));
    }
    const open = bytes.length - keep;
    this.#held = Buffer.from(bytes.subarray(open));
    this.#known = Math.max(0, ...found.map(([from, to]) => (from <= open ? to - open : 0)));
    for (const [from, to] of found) bytes.fill(star, from, to);
    return bytes.subarray(0, open);
  }

  /** Returns the rest. */
  end(): Buffer {
    const rest = this.#held.fill(star, 0, this.#known);
    this.#held = Buffer.alloc(0);
    this.#known = 0;
    return rest;
  }
}

/** A stream through a mask. */
export function maskStream(patterns: () => readonly Pattern[]): Transform {
  const mask = new ByteMask(patterns);
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      void (async () => {
        for (let at = 0; at < piece.length; at += sliceBytes) {
          if (at > 0) await setImmediate();
          this.push(mask.write(piece.subarray(at, at + sliceBytes)));
        }
      })().then(() => done(), done);
    },
    flush(done) {
      done(null, mask.end());
    },
  });
}
