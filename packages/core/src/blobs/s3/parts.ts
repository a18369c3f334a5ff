import type { CountedBytes } from "../checked-stream.ts";

const mebibyte = 2 ** 20;
/** A store accepts 10,000 parts, so later ones are larger: 64 MiB instead of 16. */
const partBytes = (index: number) => (index < 1_000 ? 16 : 64) * mebibyte;

/** A part of a stream. */
export interface Part {
  bytes: Buffer;
  isLast: boolean;
}

/** Cuts a stream into parts, each completely in memory, and counts all bytes. */
export async function* cutIntoParts(
  source: AsyncIterable<Uint8Array>,
  counted: CountedBytes,
  sizeOf: (index: number) => number = partBytes,
): AsyncGenerator<Part> {
  let chunks: Uint8Array[] = [];
  let size = 0;
  let index = 0;
  for await (const given of source) {
    counted.add(given);
    let chunk = given;
    // A full part waits for the next byte, so that the last one is known as such.
    while (size + chunk.length > sizeOf(index)) {
      const taken = sizeOf(index) - size;
      yield { bytes: Buffer.concat([...chunks, chunk.subarray(0, taken)]), isLast: false };
      chunks = [];
      size = 0;
      index++;
      chunk = chunk.subarray(taken);
    }
    // The source may use its buffer again.
    chunks.push(Buffer.from(chunk));
    size += chunk.length;
  }
  yield { bytes: Buffer.concat(chunks), isLast: true };
}
