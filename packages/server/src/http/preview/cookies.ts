import type { PreviewTarget } from "./address.ts";

/** Cookies of these names are the platform's: they never reach an app, and an app cannot set them. */
const platformName = /^(?:__(?:host|secure)-)?sandpiper/i;

/** The app's cookies carry this before their names in the path form, for there the jar is that of the whole host. */
const pathFormName = "preview_";

const sessionCookie = "sandpiper_preview";
const laxCookie = "sandpiper_preview_lax";

/**
 * Set-Cookie headers that keep a session token on a preview's own host until `expires` (ms since the epoch). The first is for https and for
 * localhost, works in a frame, and belongs to the page around the frame; browsers that refuse it over http take the second.
 */
export function sessionCookies(token: string, { origin }: PreviewTarget, expires: number): string[] {
  const common = `Path=/; HttpOnly; Max-Age=${Math.floor((expires - Date.now()) / 1000)}`;
  const first = `${sessionCookie}=${token}; ${common}; Secure; SameSite=None; Partitioned`;
  return origin.startsWith("https:") ? [first] : [first, `${laxCookie}=${token}; ${common}; SameSite=Lax`];
}

/** The session tokens in a Cookie header; pages of neighbouring hosts may have put wrong ones beside the right one. */
export function sessionTokens(header: string | undefined): string[] {
  return pairs(header).flatMap(([name, value]) =>
    name === sessionCookie || name === laxCookie ? [value] : [],
  );
}

/** The Cookie header that the app gets; undefined when nothing is left of it. */
export function cookiesForApp(header: string | undefined, { form }: PreviewTarget): string | undefined {
  const kept = pairs(header).flatMap(([name, value]) => {
    if (form === "host") return platformName.test(name) ? [] : [`${name}=${value}`];
    return name.startsWith(pathFormName) ? [`${name.slice(pathFormName.length)}=${value}`] : [];
  });
  return kept.length > 0 ? kept.join("; ") : undefined;
}

/** An app's Set-Cookie header as the client gets it: valid for the preview alone. Undefined when the cookie may not be set. */
export function cookieFromApp(header: string, { form, cookiePath }: PreviewTarget): string | undefined {
  const [pair = "", ...attributes] = header.split(";");
  const name = pair.split("=", 1)[0]!.trim();
  if (name === "" || !pair.includes("=") || platformName.test(name)) return undefined;
  const kept = attributes.filter((attribute) => !/^\s*domain\s*(=|$)/i.test(attribute));
  if (form === "host") return [pair, ...kept].join(";");
  // These names promise the browser a cookie for the whole host, which this one is not.
  if (/^__(host|secure)-/i.test(name)) return undefined;
  const path = kept.findLast((attribute) => pathAttribute.test(attribute))?.replace(pathAttribute, "");
  const below = path?.trim().startsWith("/") ? path.trim().slice(1) : "";
  const rest = kept.filter((attribute) => !pathAttribute.test(attribute));
  return [`${pathFormName}${pair.trim()}`, ...rest, ` Path=${cookiePath}${below}`].join(";");
}

const pathAttribute = /^\s*path\s*=?/i;

function pairs(header: string | undefined): [name: string, value: string][] {
  return (header ?? "").split(";").flatMap((text): [string, string][] => {
    const equals = text.indexOf("=");
    return equals < 0 ? [] : [[text.slice(0, equals).trim(), text.slice(equals + 1).trim()]];
  });
}
