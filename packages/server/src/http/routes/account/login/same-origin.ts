import type { IncomingHttpHeaders } from "node:http";

export interface RequestOrigin {
  method: string;
  headers: IncomingHttpHeaders;
  publicUrl: string | undefined;
  /** Browsers reach this server over https. */
  secure: boolean;
  /** A WebSocket handshake, after which a page can send and read. */
  upgrading: boolean;
}

const safeMethods = new Set(["GET", "HEAD"]);

/**
 * Whether this server's own page or the user sent a request with the login cookie. SameSite does
 * not suffice, because neighbouring hosts (previews) are the same site. `Sec-Fetch-Site` decides;
 * without it (plain http, handshakes) `Origin` must be this server's, and only a read may omit it.
 */
export function isFromOwnPage({ method, headers, upgrading, ...own }: RequestOrigin): boolean {
  const site = headers["sec-fetch-site"];
  if (site !== undefined) return site === "same-origin" || (site === "none" && !upgrading);
  const { origin } = headers;
  if (origin === undefined) return safeMethods.has(method) && !upgrading;
  return isOwnOrigin(origin, headers.host, own);
}

const loopback = /^(?:localhost|127\.0\.0\.1|\[::1\])$/;

/**
 * Whether an origin is this server's: the public URL, or the scheme and host to which the browser
 * sent the request. Where browsers use https, a page of the same host in plain http is foreign:
 * anybody on the network path can change such a page. A browser writes an origin in one way only.
 */
function isOwnOrigin(
  origin: string,
  host: string | undefined,
  { publicUrl, secure }: Pick<RequestOrigin, "publicUrl" | "secure">,
): boolean {
  if (!URL.canParse(origin)) return false;
  const from = new URL(origin);
  if (from.origin !== origin) return false;
  if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true;
  const isOwnScheme =
    from.protocol === "https:" || (from.protocol === "http:" && (!secure || loopback.test(from.hostname)));
  if (!isOwnScheme || host === undefined || !URL.canParse(`${from.protocol}//${host}`)) return false;
  return new URL(`${from.protocol}//${host}`).host === from.host;
}
