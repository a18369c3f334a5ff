import { makeToken, type SandboxGrant, type SandboxGrants } from "../../../users/sandbox-grants.ts";

/** Lifetime of the cookie, seconds. */
const lifeSeconds = 30 * 24 * 3_600;
const name = "oh_workspace_session_key";

/** `path` is the path of conversations; `secure` whether the browser accepts https-only cookies. */
export interface CookieScope {
  path: string;
  secure: boolean;
}

/**
 * The Set-Cookie header that lets a browser read files of one sandbox's workspaces, also in frames
 * and images, which send no key (agent-server.md section 1). It contains no key, grants nothing
 * else, and ends with the sandbox, with the caller's key or login, or after a month.
 */
export function makeWorkspaceCookie(grant: SandboxGrant, scope: CookieScope): string {
  const token = makeToken(grant, 0, "workspace", Date.now() + lifeSeconds * 1_000);
  return formatCookie(`${grant.row.id}~${token}`, scope, lifeSeconds);
}

/** The Set-Cookie header that deletes the cookie. */
export function makeClearingWorkspaceCookie(scope: CookieScope): string {
  return formatCookie("", scope, 0);
}

function formatCookie(value: string, { path, secure }: CookieScope, seconds: number): string {
  const site = secure ? "Secure; SameSite=None; Partitioned" : "SameSite=Lax";
  return `${name}=${value}; Path=${path}; HttpOnly; Max-Age=${seconds}; ${site}`;
}

/** The sandbox that a Cookie header grants, which must be `only` if given. */
export async function authenticateWorkspaceCookie(
  header: string | undefined,
  only: string | undefined,
  grants: Pick<SandboxGrants, "byToken">,
): Promise<SandboxGrant | undefined> {
  if (!header?.includes(name)) return undefined;
  for (const text of header.split(";").slice(0, 100)) {
    const [, id, token] = /^\s*oh_workspace_session_key=([\w-]{1,64})~(\S+)\s*$/.exec(text) ?? [];
    if (id === undefined || (only !== undefined && id !== only)) continue;
    const grant = await grants.byToken(token!, "workspace", { sandboxId: id, port: 0 });
    if (grant) return grant;
  }
  return undefined;
}
