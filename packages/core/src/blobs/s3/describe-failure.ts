import { PlatformError } from "../../errors.ts";

/** The fields of an error of the client that this file reads. */
interface ClientFailure {
  name?: string;
  code?: string;
  message?: string;
  $metadata?: { httpStatusCode?: number };
}

/** Time until another try is worthwhile, s. */
const retryAfter = 10;

const credentialNames = /^(?:CredentialsProviderError|TokenProviderError)$/;
const refusalNames =
  /^(?:AccessDenied|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|InvalidToken|XAdminUserNotFound)$/;
const fullNames = /(?:StorageFull|QuotaExceeded|InsufficientStorage|InsufficientCapacity|NoSpace)/i;
const redirectNames = /^(?:PermanentRedirect|TemporaryRedirect|Redirect|AuthorizationHeaderMalformed)$/;

/** Whether the store has no such object. A missing bucket or account is another failure. */
export function isMissing(error: unknown): boolean {
  return ["NoSuchKey", "NotFound"].includes((error as ClientFailure).name ?? "");
}

/** Whether another try may succeed, because the connection, the network or the server failed. */
export function isTransient(error: unknown): boolean {
  if (error instanceof PlatformError) return false;
  const status = (error as ClientFailure).$metadata?.httpStatusCode;
  return status === undefined ? !credentialNames.test((error as ClientFailure).name ?? "") : status >= 500;
}

/** Returns the error of the catalogue for a failure of the client. */
export function describeFailure(error: unknown, place: string): unknown {
  if (error instanceof PlatformError) return error;
  const { name = "", code, $metadata } = error as ClientFailure;
  const status = $metadata?.httpStatusCode;
  const cause = { cause: error };
  const reason = describeReason(name, code, status);
  if (credentialNames.test(name))
    return new PlatformError("BlobCredentialsMissing", { place, reason }, cause);
  if (name === "NoSuchBucket") return new PlatformError("BlobBucketMissing", { place }, cause);
  if (redirectNames.test(name) || (status !== undefined && status >= 300 && status < 400))
    return new PlatformError("BlobsRedirected", { place }, cause);
  if (status === 507 || fullNames.test(name)) return new PlatformError("BlobsFull", { place }, cause);
  if (status === 401 || status === 403 || refusalNames.test(name))
    return new PlatformError("BlobsRefused", { place, reason }, cause);
  if (status !== undefined && status >= 400 && status < 500)
    return new PlatformError("BlobsFailed", { place, reason }, cause);
  return new PlatformError("BlobsUnreachable", { place, reason }, { ...cause, retryAfter });
}

/**
 * Returns a short word for a failure. The server chooses the name, so only a plain name is shown.
 */
function describeReason(name: string, code: string | undefined, status: number | undefined): string {
  const plain = [code, name].find((word) => word && /^[A-Za-z0-9_.]{3,64}$/.test(word) && word !== "Error");
  return plain ?? (status === undefined ? "no answer" : `status ${status}`);
}
