import type { PreviewTarget } from "./address.ts";

/** Cookies with the platform's names never reach an app, and an app cannot set them. */
const platformName = /^(?:__(?:host|secure)-)?sandpiper/i;

/**
 * Prefixes the names of the app's cookies in the path form, where all previews share the host's
 * cookies.
 */
const pathFormName = "preview_";

const sessionCookie = "sandpiper_preview";
const laxCookie = "sandpiper_preview_lax";

/**
 * Set-Cookie headers that keep a session token on a preview's host until `expires` (ms since the
 * epoch). The first works over https and on localhost, also in a frame, partitioned by the framing
 * page; browsers that reject it over http use the second.
 */
export function makeSessionCookies(token: string, { origin }: PreviewTarget, expires: number): string[] {
  const common = `Path=/; HttpOnly; Max-Age=${Math.floor((expires - Date.now()) / 1000)}`;
  const first = `${sessionCookie}=${token}; ${common}; Secure; SameSite=None; Partitioned`;
  return origin.startsWith("https:") ? [first] : [first, `${laxCookie}=${token}; ${common}; SameSite=Lax`];
}

/** The session tokens in a Cookie header; pages of neighbouring hosts may have added wrong ones. */
export function parseSessionTokens(header: string | undefined): string[] {
  return parseCookies(header).flatMap(([name, value]) =>
    name === sessionCookie || name === laxCookie ? [value] : [],
  );
}

/** The Cookie header for the app; undefined if empty. */
export function filterRequestCookies(
  header: string | undefined,
  { form }: PreviewTarget,
): string | undefined {
  const cookies = parseCookies(header).flatMap(([name, value]) => {
    if (form === "host") return platformName.test(name) ? [] : [`${name}=${value}`];
    return name.startsWith(pathFormName) ? [`${name.slice(pathFormName.length)}=${value}`] : [];
  });
  return cookies.length > 0 ? cookies.join("; ") : undefined;
}

/**
 * Rewrites an app's Set-Cookie header to apply only to the preview. Undefined if it is not allowed.
 */
export function rewriteSetCookie(header: string, { form, cookiePath }: PreviewTarget): string | undefined {
  const [pair = "", ...attributes] = header.split(";");
  const name = pair.split("=", 1)[0]!.trim();
  if (name === "" || !pair.includes("=") || platformName.test(name)) return undefined;
  const kept = attributes.filter((attribute) => !/^\s*domain\s*(=|$)/i.test(attribute));
  if (form === "host") return [pair, ...kept].join(";");
  // These names promise a cookie for the whole host.
  if (/^__(host|secure)-/i.test(name)) return undefined;
  const path = kept.findLast((attribute) => pathAttribute.test(attribute))?.replace(pathAttribute, "");
  const below = path?.trim().startsWith("/") ? path.trim().slice(1) : "";
  const rest = kept.filter((attribute) => !pathAttribute.test(attribute));
  return [`${pathFormName}${pair.trim()}`, ...rest, ` Path=${cookiePath}${below}`].join(";");
}

const pathAttribute = /^\s*path\s*=?/i;

function parseCookies(header: string | undefined): [name: string, value: string][] {
  return (header ?? "").split(";").flatMap((text): [string, string][] => {
    const equals = text.indexOf("=");
    return equals < 0 ? [] : [[text.slice(0, equals).trim(), text.slice(equals + 1).trim()]];
  });
}
