import type { CountedBytes } from "../checked-stream.ts";

const mebibyte = 2 ** 20;
/** Size of a part by its index, bytes. Later parts are larger, because a store accepts 10,000. */
const partBytes = (index: number) => (index < 1_000 ? 16 : 64) * mebibyte;

/** A part of a stream. */
export interface Part {
  bytes: Buffer;
  isLast: boolean;
}

/** Cuts a stream into parts, each of them completely in memory, and counts all bytes. */
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
    // A full part waits for the next byte, because only then it is known not to be the last part.
    while (size + chunk.length > sizeOf(index)) {
      const taken = sizeOf(index) - size;
      yield { bytes: Buffer.concat([...chunks, chunk.subarray(0, taken)]), isLast: false };
      chunks = [];
      size = 0;
      index++;
      chunk = chunk.subarray(taken);
    }
    // The copy is needed because the source may use its buffer again.
    chunks.push(Buffer.from(chunk));
    size += chunk.length;
  }
  yield { bytes: Buffer.concat(chunks), isLast: true };
}
