import { Transform } from "node:stream";
import { setImmediate } from "node:timers/promises";
import type { Patterns } from "./patterns.ts";

/** Bytes that are searched before other work gets its turn. */
export const sliceBytes = 8_192;
const star = 0x2a;

/**
 * Replaces patterns in a stream by stars of the same length, also where patterns overlap. Holds
 * back only what may be the beginning of a pattern. `patterns` is asked at each piece, because
 * secrets may be sent meanwhile.
 */
export class ByteMask {
  readonly #patterns: () => readonly Patterns[];
  #held: Buffer = Buffer.alloc(0);
  /** How many of the held bytes are known to be of a secret. */
  #known = 0;

  constructor(patterns: () => readonly Patterns[]) {
    this.#patterns = patterns;
  }

  write(piece: Buffer): Buffer {
    // A copy, because the piece belongs to its sender.
    const bytes = Buffer.concat([this.#held, piece]);
    const codes = Uint16Array.from(bytes);
    const found: [from: number, to: number][] = [[0, this.#known]];
    let keep = 0;
    for (const patterns of this.#patterns()) {
      patterns.find(codes, (from, to) => void found.push([from, to]));
      keep = Math.max(keep, patterns.openLength(codes));
    }
    const open = bytes.length - keep;
    this.#held = Buffer.from(bytes.subarray(open));
    this.#known = 0;
    for (const [from, to] of found) {
      if (from <= open) this.#known = Math.max(this.#known, to - open);
      bytes.fill(star, from, to);
    }
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

/** Masks whole texts (one character per byte), all in one pass. */
export function maskTexts(texts: readonly string[], patterns: readonly Patterns[]): string[] {
  const mask = new ByteMask(() => patterns);
  const shown = Buffer.concat([mask.write(Buffer.from(texts.join("\n"), "latin1")), mask.end()]);
  let end = -1;
  return texts.map(({ length }) => {
    const from = end + 1;
    end = from + length;
    return shown.toString("latin1", from, end);
  });
}

/** A stream through a mask. */
export function maskStream(patterns: () => readonly Patterns[]): Transform {
  const mask = new ByteMask(patterns);
  return sliced(
    (piece) => mask.write(piece),
    () => mask.end(),
  );
}

/**
 * A stream that converts its bytes slice by slice, while other work runs; one slice gives one piece
 * of output.
 */
export function sliced(convert: (slice: Buffer) => Buffer, end: () => Buffer): Transform {
  return new Transform({
    transform(piece: Buffer, _encoding, done) {
      void (async () => {
        for (let at = 0; at < piece.length; at += sliceBytes) {
          if (at > 0) await setImmediate();
          this.push(convert(piece.subarray(at, at + sliceBytes)));
        }
      })().then(() => done(), done);
    },
    flush(done) {
      done(null, end());
    },
  });
}
