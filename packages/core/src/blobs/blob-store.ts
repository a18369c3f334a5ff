import type { Readable } from "node:stream";

/** A stored sequence of bytes, named by its content. */
export interface BlobInfo {
  /** SHA-256 of the bytes, 64 hexadecimal digits. */
  digest: string;
  /** Bytes. */
  size: number;
}

/** A blob of a page. */
export interface StoredBlob extends BlobInfo {
  /** Milliseconds since the epoch, by the clock of the store. */
  storedAt: number;
}

export interface BlobPage {
  /** Ascending by digest. */
  blobs: StoredBlob[];
  /** Give it to the next call; undefined: this was the last page. */
  next: string | undefined;
}

/**
 * Keeps large data that several servers share. Equal bytes are stored once. All methods throw
 * BlobsUnavailable when the store does not answer or refuses, and the reason of an aborted signal.
 */
export interface BlobStore {
  /** Where it is, for messages: a folder, or an address without credentials. */
  readonly place: string;

  /**
   * Stores a stream in bounded memory and names it by its bytes. Resolves when it is durable; after
   * a failure nothing of it can be read. Throws StorageFull, or what the source throws.
   */
  put(source: AsyncIterable<Uint8Array>, options?: { signal?: AbortSignal }): Promise<BlobInfo>;

  /**
   * Reads a blob, in bounded memory. The stream fails with BlobLost unless all bytes are those that
   * the digest names; it never ends well with others. A range (`end` exclusive) is not checked.
   * Throws BlobLost when there is no such blob.
   */
  get(blob: BlobInfo, options?: { range?: BlobRange; signal?: AbortSignal }): Promise<Readable>;

  /** Whether a blob is stored with this size. */
  has(blob: BlobInfo): Promise<boolean>;

  /** Removes a blob; one that is missing stays missing. */
  remove(digest: string): Promise<void>;

  /** Lists at most 1000 blobs. */
  list(after?: string): Promise<BlobPage>;

  /** Removes parts of blobs whose `put` has not gone on for `unusedMs`. Returns their number. */
  removeUnfinished(unusedMs: number): Promise<number>;

  /** Checks that blobs can be written, read and removed. */
  check(): Promise<void>;

  /** Ends its connections. */
  close(): void;
}

/** From `start` to before `end`, bytes. */
export interface BlobRange {
  start: number;
  end: number;
}

/** Blobs of a page. */
export const maxPage = 1_000;

const digestPattern = /^[0-9a-f]{64}$/;

/** Whether a text has the form of a digest, so that it can be a part of a path. */
export function isDigest(text: string): boolean {
  return digestPattern.test(text);
}
