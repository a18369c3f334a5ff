import type { IncomingHttpHeaders } from "node:http";

/** What tells where a request comes from. */
export interface RequestOrigin {
  method: string;
  headers: IncomingHttpHeaders;
  /** The configured public address, if there is one. */
  publicUrl: string | undefined;
  /** A WebSocket's handshake: a page that makes one can send and read. */
  upgrading: boolean;
}

const safeMethods = new Set(["GET", "HEAD"]);

/**
 * Whether a request that the login cookie came along with was made by a page of this server, or by the user in person. Sites on
 * neighbouring host names, such as previews, count as the same site for SameSite, so the cookie alone does not tell. What browsers say in
 * `Sec-Fetch-Site` decides; where it is absent (plain http, handshakes) the `Origin` has to be this server's, which
 * only a reading request may leave out.
 */
export function fromOwnPage({ method, headers, publicUrl, upgrading }: RequestOrigin): boolean {
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
