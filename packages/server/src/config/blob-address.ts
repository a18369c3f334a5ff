import type { BlobPlace, S3Place } from "@sandpiper/core/blobs/place";
import { parseWebUrl } from "./value-parsers.ts";

/** The value of SANDPIPER_BLOBS. */
export type BlobAddress =
  | Extract<BlobPlace, { kind: "folder" }>
  | Pick<S3Place, "kind" | "bucket" | "prefix">;

const bucketPattern = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
/** A prefix of names, without characters that have a meaning in addresses or paths. */
const prefixPattern = /^(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}\/){0,8}$/;

/** Parses `/srv/blobs`, `s3://bucket` or `s3://bucket/a/b`; undefined for any other text. */
export function parseBlobAddress(text: string): BlobAddress | undefined {
  if (/^\/+[^/\0][^\0]*$/.test(text)) return { kind: "folder", path: text };
  const [, bucket = "", path = ""] = /^s3:\/\/([^/]+)(?:\/(.*))?$/s.exec(text) ?? [];
  const prefix = path === "" || path.endsWith("/") ? path : `${path}/`;
  if (!bucketPattern.test(bucket) || !prefixPattern.test(prefix)) return undefined;
  return { kind: "s3", bucket, prefix };
}

/** Parses an address without a path; undefined for any other text. */
export function parseOrigin(text: string): string | undefined {
  const url = parseWebUrl(text);
  return url?.pathname === "/" && !url.search && !url.hash ? url.origin : undefined;
}

/** Makes the place of blobs from its address; the other variables apply to a bucket. */
export function toBlobPlace(
  address: BlobAddress | undefined,
  access: Pick<S3Place, "endpoint" | "region" | "credentialsFile">,
): BlobPlace | undefined {
  return address?.kind === "s3" ? { ...address, ...access } : address;
}
