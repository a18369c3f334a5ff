/**
 * The server's own requests to addresses that users name: git providers, callbacks, MCP servers. Never to private, loopback, link-local or
 * otherwise reserved addresses unless the operator allows their range (SANDPIPER_OUTBOUND_PRIVATE), and never through a redirect unless
 * the same checks hold for its target. Names are resolved once and the connection goes to an address that was checked.
 */
export interface Outbound {
  /** Like the global `fetch`. Throws PlatformError OutboundRefused for a forbidden address or scheme, OutboundFailed where nothing answers in time. */
  fetch(url: string, options?: OutboundRequest): Promise<Response>;
}

export interface OutboundRequest {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  /** Over all, ms; default 15,000. */
  timeoutMs?: number;
  /** Longest answer that is read, bytes; default 8 MiB. What is longer throws OutboundFailed. */
  maxBytes?: number;
  signal?: AbortSignal;
}
