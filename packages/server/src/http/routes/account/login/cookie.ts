import type { IncomingHttpHeaders } from "node:http";

/** The `__Host-` prefix stops neighbouring hosts from setting this cookie over https. */
const secureName = "__Host-sandpiper_login";
const plainName = "sandpiper_login";

export interface RequestContext {
  headers: IncomingHttpHeaders;
  /** The request's scheme, from the connection or a trusted proxy. */
  protocol: string;
  publicUrl: string | undefined;
}

/** Whether browsers reach the server over https. */
export function isSecure({ protocol, publicUrl }: Pick<RequestContext, "protocol" | "publicUrl">): boolean {
  return publicUrl === undefined ? protocol === "https" : publicUrl.startsWith("https:");
}

/** The Set-Cookie header of a login that ends at `expiresAt` (ms since the epoch). */
export function makeLoginCookie(token: string, secure: boolean, expiresAt: number): string {
  return formatCookie(token, secure, Math.max(1, Math.floor((expiresAt - Date.now()) / 1000)));
}

/** The Set-Cookie headers that delete the login cookie under both names. */
export function makeClearingCookies(): string[] {
  return [formatCookie("", true, 0), formatCookie("", false, 0)];
}

function formatCookie(value: string, secure: boolean, seconds: number): string {
  const attributes = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}`;
  return secure ? `${secureName}=${value}; ${attributes}; Secure` : `${plainName}=${value}; ${attributes}`;
}

/** The login tokens in a Cookie header; those of the https-only name come first. */
export function parseLoginTokens(header: string | undefined): string[] {
  if (header === undefined || !header.includes(plainName)) return [];
  const values = (name: string) =>
    header
      .split(";")
      .map((text) => text.trim())
      .filter((text) => text.startsWith(`${name}=`))
      .map((text) => text.slice(name.length + 1));
  return [...values(secureName), ...values(plainName)].filter((value) => value !== "").slice(0, 4);
}
