import { PlatformError } from "@sandpiper/core/errors";

const passing: ReadonlySet<string> = new Set(["StorageBusy", "DatabaseUnavailable"]);

/**
 * Whether the store failed in a way that ends by itself, so that work of the server waits and then
 * goes on. The store may have stored a write that failed in this way.
 */
export function isPassing(error: unknown): error is PlatformError {
  return error instanceof PlatformError && passing.has(error.code);
}
