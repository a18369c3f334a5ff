import { crc32 } from "node:zlib";

/** More than one event of Bedrock's binary streams ever holds, bytes. */
const maxFrameBytes = 24 * 1024 * 1024;

/** A stream that no client can read, or that ended within an event. */
export class BrokenStream extends Error {}

const unreadable = "the endpoint sent a stream that cannot be read";

/**
 * Splits a stream of `application/vnd.amazon.eventstream` into whole frames; the SDK's reader would
 * otherwise copy its buffer with each packet. Throws BrokenStream at once for a frame with an
 * impossible length or a wrong checksum.
 */
export function splitFrames(): TransformStream<Uint8Array, Uint8Array> {
  let chunks: Uint8Array[] = [];
  let length = 0;
  return new TransformStream({
    transform(chunk, controller) {
      chunks.push(chunk);
      length += chunk.byteLength;
      while (length >= 4) {
        const head = headOf(chunks);
        const frame = head.getUint32(0);
        if (frame < 16 || frame > maxFrameBytes) throw new BrokenStream(unreadable);
        if (length < frame) return;
        const bytes = Buffer.concat(chunks);
        if (crc32(bytes.subarray(0, frame - 4)) !== bytes.readUInt32BE(frame - 4))
          throw new BrokenStream(unreadable);
        controller.enqueue(new Uint8Array(bytes.subarray(0, frame)));
        chunks = length > frame ? [bytes.subarray(frame)] : [];
        length -= frame;
      }
    },
    flush() {
      if (length > 0)
        throw new BrokenStream("the endpoint closed the connection before the end of its answer");
    },
  });
}

/** The first four bytes, wherever packets split them. */
function headOf(chunks: Uint8Array[]): DataView {
  const [first] = chunks;
  const head =
    first && first.byteLength >= 4
      ? first
      : Buffer.concat(chunks.map((chunk) => chunk.subarray(0, 4))).subarray(0, 4);
  return new DataView(head.buffer, head.byteOffset, 4);
}
