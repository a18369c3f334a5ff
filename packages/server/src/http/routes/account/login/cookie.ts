/** The `__Host-` prefix stops neighbouring hosts from setting this cookie over https. */
const secureName = "__Host-sandpiper_login";
const plainName = "sandpiper_login";

/** Maximum number of login cookies of a request that are looked up. */
const maxTokens = 4;

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

/**
 * The login tokens in a Cookie header. Over https only the name counts that neighbouring hosts
 * cannot set: they would log a visitor into their account.
 */
export function parseLoginTokens(header: string | undefined, secure: boolean): string[] {
  if (header === undefined || !header.includes(plainName)) return [];
  const prefix = `${secure ? secureName : plainName}=`;
  return header
    .split(";")
    .map((text) => text.trim())
    .filter((text) => text.startsWith(prefix) && text.length > prefix.length)
    .map((text) => text.slice(prefix.length))
    .slice(0, maxTokens);
}
