import type { ErrorTexts } from "./texts.ts";

export const blobsErrors = {
  BlobLost: {
    BlobMissing: "The file {digest} is not in {place}: restore {place} from a backup.",
    BlobDamaged:
      "The file {digest} in {place} is damaged: its content is not what was stored; restore {place} from a backup.",
  },
  StorageFull: {
    BlobsFull: "{place} is full: make room there and try again.",
  },
  StorageQuotaReached: {
    CopiesFull: "The copies of this user's sandboxes and snapshots would take more than SANDPIPER_USER_DISK.",
  },
  BlobsUnavailable: {
    CopyCancelled: "The files are not copied, because they are about to change.",
    CopyRemoved: "The copy was removed while it was stored: the server makes it again.",
    BlobFolderUnusable:
      "The folder {place} cannot be used ({reason}): let the server read and write there, or set SANDPIPER_BLOBS to another one.",
    BlobsUnreachable:
      "{place} does not answer ({reason}): check SANDPIPER_BLOBS_ENDPOINT and the network, and try again.",
    BlobsRefused:
      "{place} refuses the credentials ({reason}): give the server credentials that may read, write, list and delete there.",
    BlobCredentialsMissing:
      "There are no usable credentials for {place} ({reason}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or SANDPIPER_BLOBS_CREDENTIALS to a file with them.",
    BlobBucketMissing: "The bucket of {place} does not exist: create it, or correct SANDPIPER_BLOBS.",
    BlobsRedirected:
      "{place} redirects to another address, which is not followed: set SANDPIPER_BLOBS_ENDPOINT and SANDPIPER_BLOBS_REGION to those of the bucket.",
    BlobsFailed: "{place} answered with the error {reason}.",
  },
} as const satisfies ErrorTexts;
