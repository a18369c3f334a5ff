import { PlatformError } from "@sandpiper/core/errors";

const passing: ReadonlySet<string> = new Set(["StorageBusy", "DatabaseUnavailable"]);

/**
 * Whether the store failed in a way that ends by itself, so that work of the server waits and goes
 * on. A write that failed so may have been stored.
 */
export function isPassing(error: unknown): error is PlatformError {
  return error instanceof PlatformError && passing.has(error.code);
}
