import type { Socket } from "node:net";
import type { Destination } from "./dial.ts";

/**
 * Sends the server's requests to addresses that users name: git providers, callbacks, MCP servers.
 * Private, loopback, link-local and reserved addresses are refused unless the operator allows their
 * range (SANDPIPER_OUTBOUND_PRIVATE), also as the target of a redirect. A name is resolved once,
 * and the connection goes to the checked address.
 */
export interface Outbound {
  /**
   * Like the global `fetch`, for an `http:` or `https:` URL without user information. Follows at
   * most 5 redirects; a redirect to another origin keeps only harmless headers and no body. Throws
   * PlatformError OutboundRefused for a forbidden address, scheme or redirect, and OutboundFailed
   * when the host does not answer in time. Reading the response throws OutboundFailed when it is
   * too long or too slow. Cancel an unused response (`response.body?.cancel()`).
   */
  fetch(url: string, options?: OutboundRequest): Promise<Response>;
  /**
   * Checks a URL before it is stored. Throws PlatformError OutboundRefused for a forbidden scheme,
   * user information, or a forbidden literal address; only `fetch` looks names up.
   */
  check(url: string): void;
  /**
   * Connects to a checked address, for a program that the server starts. `trusted`: the operator
   * named this host, so that it may have any address. Throws PlatformError OutboundRefused or
   * OutboundFailed.
   */
  connect(destination: Destination, options?: { trusted?: boolean }): Promise<Socket>;
}

export interface OutboundRequest {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Over all, reading included, ms; default 15,000. */
  timeoutMs?: number;
  /**
   * Maximum length of the decompressed response, bytes; default 8 MiB. A longer one throws
   * OutboundFailed.
   */
  maxBytes?: number;
  /** The request carries a secret: plain `http:` reaches only ranges that the operator allowed. */
  secret?: boolean;
  /** `manual`: a redirect is the answer. Default `follow`. */
  redirect?: "follow" | "manual";
  signal?: AbortSignal;
}
