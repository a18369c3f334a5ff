/**
 * The server's own requests to addresses that users name: git providers, callbacks, MCP servers. Never to private, loopback, link-local or
 * otherwise reserved addresses unless the operator allows their range (SANDPIPER_OUTBOUND_PRIVATE), and never through a redirect unless
 * the same checks hold for its target. Names are resolved once and the connection goes to an address that was checked.
 */
export interface Outbound {
  /**
   * Like the global `fetch`, with one address, `http:` or `https:`, without user information. At most 5 redirects are followed; one to
   * another origin takes only headers without meaning for access along, and no body. Throws PlatformError OutboundRefused for a forbidden
   * address, scheme or redirect, OutboundFailed where nothing answers in time. Reading the answer throws OutboundFailed when it is longer
   * or slower than asked. An answer that is not wanted should be cancelled (`response.body?.cancel()`).
   */
  fetch(url: string, options?: OutboundRequest): Promise<Response>;
  /**
   * What can be told of an address before it is asked for, so that one that can never work is refused where it is stored. Throws PlatformError
   * OutboundRefused for a forbidden scheme, user information, or a host written as a forbidden address; names are looked up by `fetch` only.
   */
  check(url: string): void;
}

export interface OutboundRequest {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Over all, reading included, ms; default 15,000. */
  timeoutMs?: number;
  /** Longest answer that is read, decompressed, bytes; default 8 MiB. What is longer throws OutboundFailed. */
  maxBytes?: number;
  /** The request carries a secret: plain `http:` only reaches the ranges that the operator allowed, never public addresses. */
  secret?: boolean;
  /** `manual`: a redirect is the answer. Default `follow`. */
  redirect?: "follow" | "manual";
  signal?: AbortSignal;
}
