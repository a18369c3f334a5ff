import type { BlobStore } from "./blob-store.ts";
import { FolderBlobStore } from "./folder-store.ts";
import type { BlobPlace } from "./place.ts";

/** Opens a store of blobs without a request to the store. */
export async function openBlobStore(place: BlobPlace): Promise<BlobStore> {
  if (place.kind === "folder") return new FolderBlobStore(place.path);
  // The S3 client is loaded only when it is needed, because that takes a fifth of a second.
  const { openS3BlobStore } = await import("./s3/s3-store.ts");
  return openS3BlobStore(place);
}
