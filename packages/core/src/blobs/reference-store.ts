import type { BlobInfo, StoredBlob } from "./blob-store.ts";

/** The blob of a holder. */
export interface KeptBlob extends BlobInfo {
  /** Milliseconds since the epoch. */
  keptAt: number;
}

/** Who needs a blob: a sandbox or a snapshot by its id, and the user whose quota it counts for. */
export interface BlobHolder {
  id: string;
  userId: string;
}

/**
 * Which blobs are needed. Servers that share blobs share it too, so that any of them can remove
 * what nobody needs: a blob is claimed first, and a claimed one cannot be referenced.
 */
export interface BlobReferenceStore {
  /**
   * Makes a stored blob the one of its holder, in the place of an earlier one. False when the
   * holder is gone, or when a server is removing the blob: then it must be stored again. After true
   * nobody removes the blob, but it may have been removed before, so look for it then.
   */
  keep(holder: BlobHolder, blob: BlobInfo): Promise<boolean>;

  get(holderId: string): Promise<KeptBlob | undefined>;

  /** Ends the need of a holder; the deletion of a sandbox or a snapshot does it, too. */
  release(holderId: string): Promise<void>;

  /** Bytes that the holders of a user keep; a blob of several ones counts once. */
  userBytes(userId: string): Promise<number>;

  /** Claims blobs that nobody has needed since a time, and returns them. */
  claimUnused(limits: BlobClaim): Promise<BlobInfo[]>;

  /** Claims those of some stored blobs that no server has ever recorded, and returns them. */
  claimUnknown(blobs: readonly StoredBlob[]): Promise<BlobInfo[]>;

  /** Removes the record of a claimed blob that is no longer stored. */
  forget(digest: string): Promise<void>;
}

export interface BlobClaim {
  /** Milliseconds since the epoch. */
  unusedBefore: number;
  /** A server that claimed blobs before this time has not removed them. */
  claimedBefore: number;
  limit: number;
}
