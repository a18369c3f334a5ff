import { PlatformError } from "../errors.ts";
import type { Outbound } from "./api.ts";

/**
 * The guarded way out in the form of the global `fetch`, for libraries: an address as text or URL, a body of text, no redirects. Like the global
 * one it throws TypeError where nothing answers; a refused address is a PlatformError OutboundRefused.
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
