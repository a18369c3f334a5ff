import type { IncomingHttpHeaders } from "node:http";

/** Over https the name makes browsers refuse a cookie of this name that a neighbouring host sets. */
const secureName = "__Host-sandpiper_login";
const plainName = "sandpiper_login";

/** What a request carries that tells whether it comes by https, and the server's own address. */
export interface Surroundings {
  headers: IncomingHttpHeaders;
  /** The scheme of the request, as the connection or a trusted proxy tells it. */
  protocol: string;
  /** The configured public address, if there is one. */
  publicUrl: string | undefined;
}

/** Whether browsers reach the server by https. */
export function isSecure({ protocol, publicUrl }: Pick<Surroundings, "protocol" | "publicUrl">): boolean {
  return publicUrl === undefined ? protocol === "https" : publicUrl.startsWith("https:");
}

/** The Set-Cookie header of a login that ends at `expiresAt`, ms since the epoch. */
export function loginCookie(token: string, secure: boolean, expiresAt: number): string {
  return cookie(token, secure, Math.max(1, Math.floor((expiresAt - Date.now()) / 1000)));
}

/** The Set-Cookie headers that take a login away, whichever name it has. */
export function clearedCookies(): string[] {
  return [cookie("", true, 0), cookie("", false, 0)];
}

function cookie(value: string, secure: boolean, seconds: number): string {
  const attributes = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${seconds}`;
  return secure ? `${secureName}=${value}; ${attributes}; Secure` : `${plainName}=${value}; ${attributes}`;
}

/** The tokens of logins in a Cookie header, the name that only https can set first. */
export function loginTokens(header: string | undefined): string[] {
  if (header === undefined || !header.includes(plainName)) return [];
  const values = (name: string) =>
    header
      .split(";")
      .map((text) => text.trim())
      .filter((text) => text.startsWith(`${name}=`))
      .map((text) => text.slice(name.length + 1));
  return [...values(secureName), ...values(plainName)].filter((value) => value !== "").slice(0, 4);
}
