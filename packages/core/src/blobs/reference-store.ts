import type { BlobInfo, StoredBlob } from "./blob-store.ts";

/** The blob of a holder. */
export interface KeptBlob extends BlobInfo {
  /** Time at which `keep` added the reference, milliseconds since the epoch. */
  keptAt: number;
}

/** The sandbox or snapshot that needs a blob, and the user whose quota the blob counts for. */
export interface BlobHolder {
  id: string;
  userId: string;
}

/**
 * Keeps references to the blobs that holders need. Servers that share blobs share this store, so
 * each of them can remove unused blobs. A server claims a blob before it removes the blob, and a
 * claimed blob cannot get a reference.
 */
export interface BlobReferenceStore {
  /**
   * Makes a stored blob the blob of its holder, and drops the reference to an earlier blob. Returns
   * false when the holder does not exist, and when a server has claimed the blob; the caller must
   * then store the blob again. After true no server removes the blob. A server may have removed it
   * before, so the caller must look for the blob afterwards.
   */
  keep(holder: BlobHolder, blob: BlobInfo): Promise<boolean>;

  get(holderId: string): Promise<KeptBlob | undefined>;

  /** Removes the reference of a holder. The deletion of a sandbox or a snapshot does the same. */
  release(holderId: string): Promise<void>;

  /** Returns the bytes of the blobs of a user's holders. A blob of several holders counts once. */
  userBytes(userId: string): Promise<number>;

  /** Claims blobs that have had no reference since `unusedBefore`, and returns them. */
  claimUnused(limits: BlobClaim): Promise<BlobInfo[]>;

  /** Claims the blobs that no server has ever recorded, and returns them. */
  claimUnknown(blobs: readonly StoredBlob[]): Promise<BlobInfo[]>;

  /** Removes the record of a claimed blob that is no longer stored. */
  forget(digest: string): Promise<void>;
}

export interface BlobClaim {
  /** Blobs that lost their reference before this time are claimed, milliseconds since the epoch. */
  unusedBefore: number;
  /** Claims from before this time have expired, milliseconds since the epoch. */
  claimedBefore: number;
  limit: number;
}
