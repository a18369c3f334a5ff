import type { Readable } from "node:stream";

/** A stored sequence of bytes, named by its content. */
export interface BlobInfo {
  /** SHA-256 of the bytes, 64 hexadecimal digits. */
  digest: string;
  /** Number of bytes. */
  size: number;
}

/** A blob of a `BlobPage`. */
export interface StoredBlob extends BlobInfo {
  /** Time at which the blob was stored, by the clock of the store, milliseconds since the epoch. */
  storedAt: number;
}

export interface BlobPage {
  /** The blobs of the page, in ascending order of their digests. */
  blobs: StoredBlob[];
  /** Argument of the next `list`; undefined after the last page. */
  next: string | undefined;
}

/**
 * Keeps large data that several servers share. Keeps equal bytes once. All methods throw
 * BlobsUnavailable when the store does not answer or refuses, and the reason of an aborted signal.
 */
export interface BlobStore {
  /** Name of the store for messages: a folder, or an address without credentials. */
  readonly place: string;

  /**
   * Stores a stream as a blob, in bounded memory. Resolves when the blob is durable. After a
   * failure no part of the blob can be read. Throws StorageFull, or what the source throws.
   */
  put(source: AsyncIterable<Uint8Array>, options?: { signal?: AbortSignal }): Promise<BlobInfo>;

  /**
   * Reads a blob, in bounded memory. The stream fails with BlobLost unless its bytes have the size
   * and the digest of the blob. Nothing checks the bytes of a range. Throws BlobLost when there is
   * no such blob.
   */
  get(blob: BlobInfo, options?: { range?: BlobRange; signal?: AbortSignal }): Promise<Readable>;

  /** Whether a blob is stored with this size. */
  has(blob: BlobInfo): Promise<boolean>;

  /** Removes a blob. Does nothing for a missing blob. */
  remove(digest: string): Promise<void>;

  /** Lists at most 1000 blobs. */
  list(after?: string): Promise<BlobPage>;

  /** Removes unfinished blobs whose `put` made no progress for `unusedMs`. Returns their number. */
  removeUnfinished(unusedMs: number): Promise<number>;

  /** Writes, reads and removes a blob. Throws when one of the steps fails. */
  check(): Promise<void>;

  /** Ends the connections of the store. */
  close(): void;
}

/** The bytes of a blob from offset `start` to before offset `end`. */
export interface BlobRange {
  start: number;
  end: number;
}

/** Maximum number of blobs in a page. */
export const maxPage = 1_000;

const digestPattern = /^[0-9a-f]{64}$/;

/** Whether a text has the form of a digest, so that it can be a part of a path. */
export function isDigest(text: string): boolean {
  return digestPattern.test(text);
}
