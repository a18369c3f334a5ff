/** The place of a store of blobs. */
export type BlobPlace = { kind: "folder"; path: string } | S3Place;

/** A bucket of Amazon S3, or of a server that speaks its protocol. */
export interface S3Place {
  kind: "s3";
  bucket: string;
  /** Prefix of the names of blobs. It is empty or ends with a slash. */
  prefix: string;
  /** Address of an S3-compatible server; undefined: Amazon's for the region. */
  endpoint: string | undefined;
  region: string;
  /**
   * File with credentials in the format of Amazon's tools. Undefined: the credentials that those
   * tools would use, such as AWS_ACCESS_KEY_ID or the role of the machine.
   */
  credentialsFile: string | undefined;
}
