import type { Transform } from "node:stream";
import { ByteMask, sliced } from "./byte-mask.ts";
import type { Patterns } from "./patterns.ts";

const opcodes = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 };
const known: ReadonlySet<number> = new Set(Object.values(opcodes));
/** A message in pieces is one frame and continuations of it (RFC 6455 section 5.4). */
const finalBit = 0x80;

interface Frame {
  opcode: number;
  final: boolean;
  left: number;
}

/**
 * Masks the messages of a WebSocket server, also where frames divide a secret. Messages keep their
 * bytes but not their division into frames. Fails for what is not a WebSocket without extensions.
 */
export function maskFrames(patterns: () => readonly Patterns[]): Transform {
  const message = new ByteMask(patterns);
  let waiting: Buffer = Buffer.alloc(0);
  let frame: Frame | undefined;
  /** The opcode of the open message's next frame. */
  let next = opcodes.continuation;
  /** Of the open control frame. */
  let control: Buffer[] = [];

  const take = (piece: Buffer, { opcode, final, left }: Frame): Buffer[] => {
    if (opcode >= opcodes.close) {
      control.push(piece);
      if (left > 0) return [];
      const own = new ByteMask(patterns);
      const shown = Buffer.concat([own.write(Buffer.concat(control)), own.end()]);
      control = [];
      return [toFrame(opcode, true, shown)];
    }
    const shown = message.write(piece);
    const ends = final && left === 0;
    const payload = ends ? Buffer.concat([shown, message.end()]) : shown;
    if (payload.length === 0 && !ends) return [];
    const whole = toFrame(next, ends, payload);
    next = opcodes.continuation;
    return [whole];
  };

  const convert = (slice: Buffer): Buffer => {
    const out: Buffer[] = [];
    waiting = waiting.length > 0 ? Buffer.concat([waiting, slice]) : slice;
    for (;;) {
      if (!frame) {
        const read = readHeader(waiting);
        if (read === "more") break;
        if (read === "invalid") throw new Error("The server sends no plain WebSocket frames.");
        frame = read.frame;
        waiting = waiting.subarray(read.length);
        if (frame.opcode === opcodes.text || frame.opcode === opcodes.binary) next = frame.opcode;
      }
      if (waiting.length === 0 && frame.left > 0) break;
      const piece = waiting.subarray(0, frame.left);
      waiting = waiting.subarray(piece.length);
      frame.left -= piece.length;
      out.push(...take(piece, frame));
      if (frame.left === 0) frame = undefined;
    }
    return Buffer.concat(out);
  };
  return sliced(convert, () => Buffer.alloc(0));
}

/** The header of a server's frame, which is not masked by the protocol's own mask. */
function readHeader(bytes: Buffer): { frame: Frame; length: number } | "more" | "invalid" {
  if (bytes.length < 2) return "more";
  const opcode = bytes[0]! & 0x0f;
  const isKnown = known.has(opcode);
  const short = bytes[1]!;
  if ((bytes[0]! & 0x70) !== 0 || !isKnown || short >= 128) return "invalid";
  const final = bytes[0]! >= finalBit;
  if (opcode >= opcodes.close && (!final || short > 125)) return "invalid";
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
  if (bytes.length < 2 + extra) return "more";
  const left = extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (!Number.isSafeInteger(left)) return "invalid";
  return { frame: { opcode, final, left }, length: 2 + extra };
}

function toFrame(opcode: number, final: boolean, payload: Buffer): Buffer {
  const { length } = payload;
  const header = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  header[0] = opcode | (final ? finalBit : 0);
  header[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (header.length === 4) header.writeUInt16BE(length, 2);
  if (header.length === 10) header.writeBigUInt64BE(BigInt(length), 2);
  return Buffer.concat([header, payload]);
}
