import type { IncomingMessage } from "node:http";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { type Authenticator, credentials } from "../server/auth.ts";
import type { PreviewTarget } from "./address.ts";
import { sessionTokens } from "./cookies.ts";
import { openToken } from "./token.ts";

/** Who may see a preview, and by what: only a `cookie` comes along without the will of who made the request. */
export interface PreviewAccess {
  row: SandboxRow;
  by: "key" | "link" | "path" | "cookie";
}

/**
 * Lets a request through by a key in its headers, by a link or session token in its URL, or by the session cookie of its host.
 * Throws PlatformError SandboxNotFound for a key of somebody else, ReadOnlyKey, CrossOrigin for a cookie that another page makes use of, else Unauthorized.
 */
export function authorize(
  request: IncomingMessage,
  target: PreviewTarget,
  upgrading: boolean,
  { sandboxes, authenticator }: { sandboxes: Pick<Sandboxes, "get">; authenticator: Authenticator },
): PreviewAccess {
  const principal = authenticator.byHeaders(request.headers);
  if (principal?.readOnly) {
    throw new PlatformError(
      "ReadOnlyKey",
      "This key is read-only: it does not open previews, in which anything can be done.",
    );
  }
  if (principal) {
    const row =
      (principal.sandboxId ?? target.sandboxId) === target.sandboxId &&
      sandboxes.get(principal.userId, target.sandboxId);
    if (!row) throw new PlatformError("SandboxNotFound", "There is no such sandbox.");
    return { row, by: "key" };
  }
  const inPath = target.sessionToken && openToken(target.sessionToken, "session", target, sandboxes);
  if (inPath) return { row: inPath, by: "path" };
  const link = target.linkToken && openToken(target.linkToken, "link", target, sandboxes);
  if (link) return { row: link, by: "link" };
  if (target.form === "host") {
    for (const token of sessionTokens(request.headers.cookie)) {
      const row = openToken(token, "session", target, sandboxes);
      if (!row) continue;
      if (ownRequest(request, target, upgrading)) return { row, by: "cookie" };
      throw new PlatformError("CrossOrigin", "Another page may not use your access to this preview.");
    }
  }
  throw new PlatformError(
    "Unauthorized",
    "This preview is closed to you, or your access to it has ended: open it again from where you found its address.",
  );
}

/**
 * Whether the preview's own page, or the user by opening an address, has made a request. Previews of different sandboxes may count as one site
 * for browsers, so that SameSite does not keep them apart.
 */
function ownRequest(request: IncomingMessage, target: PreviewTarget, upgrading: boolean): boolean {
  const {
    origin,
    "sec-fetch-site": site,
    "sec-fetch-mode": mode,
    "sec-fetch-dest": destination,
  } = request.headers;
  const fromOwnPage = origin === undefined || originOf(origin) === originOf(target.origin);
  if (upgrading || site === undefined) return fromOwnPage;
  if (site === "same-origin" || site === "none") return true;
  const opens = mode === "navigate" && (destination === "document" || destination === "iframe");
  return opens && (request.method === "GET" || request.method === "HEAD");
}

function originOf(text: string): string | null {
  return URL.canParse(text) ? new URL(text).origin : null;
}

/** Whether the app may get an Authorization header: one that opens the platform, for whomever, is not for it. */
export function isForApp(authorization: string, authenticator: Authenticator): boolean {
  return !credentials({ authorization }).some((key) => authenticator.byKey(key) !== undefined);
}
