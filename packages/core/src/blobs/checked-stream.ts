import { createHash } from "node:crypto";
import { PlatformError } from "../errors.ts";
import type { BlobInfo } from "./blob-store.ts";

/**
 * Passes the bytes of a blob on. Throws BlobLost as soon as there are more bytes than the blob has,
 * and at the end when there are fewer or others.
 */
export async function* checkBytes(
  source: AsyncIterable<Uint8Array>,
  { digest, size }: BlobInfo,
  place: string,
): AsyncGenerator<Uint8Array> {
  const hash = createHash("sha256");
  let seen = 0;
  for await (const chunk of source) {
    seen += chunk.length;
    if (seen > size) throw new PlatformError("BlobDamaged", { digest, place });
    hash.update(chunk);
    yield chunk;
  }
  if (seen !== size || hash.digest("hex") !== digest)
    throw new PlatformError("BlobDamaged", { digest, place });
}

/** A failure of what is stored, and not of the store. */
class SourceFailure extends Error {}

/**
 * Does work with a source whose failures stay as they are; `describe` turns those of the store into
 * errors of the catalogue.
 */
export async function separateFailures<T>(
  source: AsyncIterable<Uint8Array>,
  work: (source: AsyncIterable<Uint8Array>) => Promise<T>,
  describe: (error: unknown) => unknown,
): Promise<T> {
  async function* marked() {
    try {
      yield* source;
    } catch (cause) {
      throw new SourceFailure("", { cause });
    }
  }
  try {
    return await work(marked());
  } catch (error) {
    throw error instanceof SourceFailure ? error.cause : describe(error);
  }
}

/** Counts and hashes bytes. */
export class CountedBytes {
  readonly #hash = createHash("sha256");
  #size = 0;

  add(chunk: Uint8Array): void {
    this.#hash.update(chunk);
    this.#size += chunk.length;
  }

  /** Takes no further bytes. */
  finish(): BlobInfo {
    return { digest: this.#hash.digest("hex"), size: this.#size };
  }
}
