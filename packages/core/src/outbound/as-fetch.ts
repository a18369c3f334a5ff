import { PlatformError } from "../errors.ts";
import type { Outbound } from "./api.ts";

/**
 * Adapts `Outbound` to the global `fetch`, for libraries: URL, text body, no redirects. Throws
 * TypeError when the host cannot be reached, and PlatformError OutboundRefused for a refused
 * address.
 */
export function asFetch(
  outbound: Outbound,
  limits: { timeoutMs: number; maxBytes: number },
): typeof globalThis.fetch {
  return async (input, init = {}) => {
    const { method = "GET", headers, body, signal } = init;
    if (input instanceof Request || (body !== undefined && body !== null && typeof body !== "string"))
      throw new TypeError("Only addresses and bodies of text are sent.");
    try {
      return await outbound.fetch(String(input), {
        method,
        // Answers come piece by piece: compressed ones would wait for each other.
        headers: { "accept-encoding": "identity", ...Object.fromEntries(new Headers(headers)) },
        ...(typeof body === "string" && { body }),
        ...(signal && { signal }),
        ...limits,
        redirect: "manual",
      });
    } catch (error) {
      if (error instanceof PlatformError && error.code === "OutboundFailed")
        throw new TypeError("fetch failed", { cause: error });
      throw error;
    }
  };
}
