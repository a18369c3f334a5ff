import { createHash } from "node:crypto";
import { PlatformError } from "../errors.ts";
import type { BlobInfo } from "./blob-store.ts";

/**
 * Passes on the bytes of a blob. Throws BlobLost as soon as the source has more bytes than the
 * blob. Throws BlobLost at the end of the source when the size or the digest differs.
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

/** Wraps a failure of the source, to tell it from a failure of the store. */
class SourceFailure extends Error {}

/**
 * Does work with a source. Throws a failure of the source unchanged. `describe` turns a failure of
 * the store into an error of the catalogue.
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

  /** Returns digest and size of the bytes. `add` must not be called afterwards. */
  finish(): BlobInfo {
    return { digest: this.#hash.digest("hex"), size: this.#size };
  }
}
