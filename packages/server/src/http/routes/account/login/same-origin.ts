import type { IncomingHttpHeaders } from "node:http";

export interface RequestOrigin {
  method: string;
  headers: IncomingHttpHeaders;
  publicUrl: string | undefined;
  /** A WebSocket handshake, after which a page can send and read. */
  upgrading: boolean;
}

const safeMethods = new Set(["GET", "HEAD"]);

/**
 * Whether this server's own page or the user sent a request with the login cookie. SameSite does
 * not suffice, because neighbouring hosts (previews) are the same site. `Sec-Fetch-Site` decides;
 * without it (plain http, handshakes) `Origin` must be this server's, and only a read may omit it.
 */
export function isFromOwnPage({ method, headers, publicUrl, upgrading }: RequestOrigin): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin" || (site === "none" && !upgrading);
  const { origin } = headers;
  if (origin === undefined) return safeMethods.has(method) && !upgrading;
  return isOwnOrigin(origin, headers.host, publicUrl);
}

function isOwnOrigin(origin: string, host: string | undefined, publicUrl: string | undefined): boolean {
  if (!URL.canParse(origin)) return false;
  const from = new URL(origin);
  if (publicUrl !== undefined && from.origin === new URL(publicUrl).origin) return true;
  if (!/^https?:$/.test(from.protocol) || host === undefined || !URL.canParse(`${from.protocol}//${host}`))
    return false;
  return new URL(`${from.protocol}//${host}`).host === from.host;
}
