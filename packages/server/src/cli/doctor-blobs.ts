import { openBlobStore } from "@sandpiper/core/blobs/open";
import { errorText } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { type DoctorFinding, finding } from "./finding.ts";

/**
 * Checks that the server can write, read, list and remove shared blobs. Returns no finding when the
 * configuration names no blobs.
 */
export async function checkBlobs({ blobs: place }: Config): Promise<DoctorFinding[]> {
  if (!place) return [];
  const blobs = await openBlobStore(place);
  try {
    await blobs.check();
    return [finding("shared blobs", false, true, `${blobs.place} can be written and read`)];
  } catch (error) {
    return [finding("shared blobs", false, false, "cannot be used", errorText(error))];
  } finally {
    blobs.close();
  }
}
