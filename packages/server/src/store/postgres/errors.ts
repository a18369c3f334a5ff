import { PlatformError } from "@sandpiper/core/errors";
import { ConstraintViolation } from "../sql/constraint-violation.ts";

/** Seconds after which clients may try again when the database is away. */
const retryAfter = 2;

/** Codes of Node's sockets and resolver. */
const networkCodes: ReadonlySet<string> = new Set([
  ...["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
  ...["ENOTFOUND", "EAI_AGAIN", "ENOENT"],
]);

/**
 * SQLSTATEs of a database server that starts, stops, has no room for a connection, or was replaced:
 * another attempt may find the server ready. 25006 comes from a former primary that became a
 * standby.
 */
const awayStates = /^(08...|57P0[1-3]|53300|25006)$/;

/** The fields of an error of PostgreSQL or `pg` that the store uses. */
export interface DatabaseError extends Error {
  /** SQLSTATE of five characters, or a code of Node. */
  code?: string;
  /** The function of PostgreSQL that raised the error. */
  routine?: string;
}

/** Whether the connection or the server is gone, so that a new connection may succeed. */
export function isAway(error: unknown): boolean {
  const { code, message } = (error ?? {}) as Partial<DatabaseError>;
  if (code !== undefined) return networkCodes.has(code) || awayStates.test(code);
  // Errors of `pg` itself have no code.
  return /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Client was closed|timeout expired|Query read timeout|read E|write E)/.test(
    message ?? "",
  );
}

/** Whether the transaction can be repeated as it is: deadlock or serialization failure. */
export function isRepeatable(error: unknown): boolean {
  return ["40001", "40P01"].includes((error as Partial<DatabaseError> | undefined)?.code ?? "");
}

/**
 * Whether a migration has changed the result of a statement that the connection has prepared: a new
 * connection can prepare the statement again.
 */
export function isStalePlan(error: unknown): boolean {
  const { code, routine } = (error ?? {}) as Partial<DatabaseError>;
  return code === "0A000" && routine === "RevalidateCachedQuery";
}

/** The error that callers of the store see. */
export function toStoreError(error: unknown): Error {
  if (error instanceof PlatformError || error instanceof ConstraintViolation) return error;
  const { code = "", message } = error as DatabaseError;
  if (isAway(error)) return new PlatformError("DatabaseDown", { cause: error, retryAfter });
  if (code === "53100") return new PlatformError("DatabaseDiskFull", { cause: error });
  // A time-out, a lock that was not free, or a deadlock has cancelled the statement.
  if (/^(57014|55P03|40001|40P01)$/.test(code))
    return new PlatformError("DatabaseSlow", { cause: error, retryAfter });
  if (code.startsWith("23")) return new ConstraintViolation(message, { cause: error });
  return new Error(`The store could not use the database: ${message}`, { cause: error });
}

/** Returns the error for a write whose connection broke before its answer came. */
export function uncertain(error: unknown): PlatformError {
  return new PlatformError("WriteUncertain", { cause: error, retryAfter });
}
