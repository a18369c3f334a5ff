import type { IncomingMessage } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxGrant, SandboxGrants } from "../../users/sandbox-grants.ts";
import { type Authenticator, getKeys } from "../server/auth.ts";
import type { PreviewTarget } from "./address.ts";
import { parseSessionTokens } from "./cookies.ts";

/** How a caller gained access to a preview. Only a `cookie` is sent without the page's intent. */
export interface PreviewAccess extends SandboxGrant {
  by: "key" | "link" | "path" | "cookie";
}

/**
 * Authorizes a request by a key in its headers, a link or session token in its URL, or the session
 * cookie of its host. Throws PlatformError SandboxNotFound for another user's key, ReadOnlyKey,
 * CrossOrigin for a cookie sent by another page, else Unauthorized.
 */
export async function authorizePreview(
  request: IncomingMessage,
  target: PreviewTarget,
  upgrading: boolean,
  {
    sandboxes,
    grants,
    authenticator,
  }: { sandboxes: Pick<Sandboxes, "get">; grants: SandboxGrants; authenticator: Authenticator },
): Promise<PreviewAccess> {
  const principal = await authenticator.byHeaders(request.headers);
  if (principal?.readOnly) {
    throw new PlatformError("KeyReadOnlyForPreview");
  }
  if (principal) {
    const row =
      (principal.sandboxId ?? target.sandboxId) === target.sandboxId &&
      (await sandboxes.get(principal.userId, target.sandboxId));
    if (!row) throw new PlatformError("SandboxUnknown");
    return { row, source: principal.source, by: "key" };
  }
  const inPath = target.sessionToken && (await grants.byToken(target.sessionToken, "session", target));
  if (inPath) return { ...inPath, by: "path" };
  const link = target.linkToken && (await grants.byToken(target.linkToken, "link", target));
  if (link) return { ...link, by: "link" };
  if (target.form === "host") {
    for (const token of parseSessionTokens(request.headers.cookie)) {
      const grant = await grants.byToken(token, "session", target);
      if (!grant) continue;
      if (isOwnRequest(request, target, upgrading)) return { ...grant, by: "cookie" };
      throw new PlatformError("PreviewFromOtherSite");
    }
  }
  throw new PlatformError("PreviewAccessRequired");
}

/**
 * Whether the preview's own page, or the user by opening a URL, sent the request. Browsers may
 * treat previews of different sandboxes as one site, so SameSite does not separate them.
 */
function isOwnRequest(request: IncomingMessage, target: PreviewTarget, upgrading: boolean): boolean {
  const {
    origin,
    "sec-fetch-site": site,
    "sec-fetch-mode": mode,
    "sec-fetch-dest": destination,
  } = request.headers;
  const fromOwnPage = origin === undefined || parseOrigin(origin) === parseOrigin(target.origin);
  if (upgrading || site === undefined) return fromOwnPage;
  if (site === "same-origin" || site === "none") return true;
  const opens = mode === "navigate" && (destination === "document" || destination === "iframe");
  return opens && (request.method === "GET" || request.method === "HEAD");
}

function parseOrigin(text: string): string | null {
  return URL.canParse(text) ? new URL(text).origin : null;
}

/** Whether the app may get the Authorization header, if any; it must not get a platform key. */
export async function isAppAuthorization(
  { headers: { authorization } }: IncomingMessage,
  authenticator: Authenticator,
): Promise<boolean> {
  for (const key of getKeys({ authorization })) if (await authenticator.byKey(key)) return false;
  return true;
}
