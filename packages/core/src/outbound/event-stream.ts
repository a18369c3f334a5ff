import { setImmediate } from "node:timers/promises";

/** Bytes of a stream whose events are read before other work gets its turn. */
const pieceBytes = 2_048;

const [lineFeed, carriageReturn] = [0x0a, 0x0d];

/**
 * Makes Server-Sent Events of others cheap to read: parsers take quadratic time for lines that end
 * in CR alone, and read all events of a piece, thousands of tiny ones, before other work runs. Each
 * line ends in LF, and long pieces are divided.
 */
export function easeEventStream(): TransformStream<Uint8Array, Uint8Array> {
  let wasReturn = false;
  return new TransformStream({
    async transform(chunk, controller) {
      for (let from = 0; from < chunk.byteLength; from += pieceBytes) {
        if (from > 0) await setImmediate();
        const piece = chunk.subarray(from, from + pieceBytes);
        const lines = unifyLineEnds(piece, wasReturn);
        wasReturn = piece.at(-1) === carriageReturn;
        if (lines.byteLength > 0) controller.enqueue(lines);
      }
    },
  });
}

/** `afterReturn`: the bytes follow a CR, which ended a line alone or together with an LF. */
function unifyLineEnds(bytes: Uint8Array, afterReturn: boolean): Uint8Array {
  if (!afterReturn && !bytes.includes(carriageReturn)) return bytes;
  const result = new Uint8Array(bytes.byteLength);
  let length = 0;
  let before = afterReturn ? carriageReturn : 0;
  for (const byte of bytes) {
    if (byte !== lineFeed || before !== carriageReturn)
      result[length++] = byte === carriageReturn ? lineFeed : byte;
    before = byte;
  }
  return result.subarray(0, length);
}
