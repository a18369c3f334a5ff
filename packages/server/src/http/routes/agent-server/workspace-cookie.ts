import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { makeToken, verifyToken } from "../../preview/token.ts";

/** How long a browser may show files of a workspace without asking for a new cookie, seconds. */
const lifeSeconds = 30 * 24 * 3_600;
const name = "oh_workspace_session_key";

/** What a cookie is for: `path` is where the conversations stand, `secure` whether the browser takes cookies that only go by https. */
export interface CookieScope {
  path: string;
  secure: boolean;
}

/**
 * The Set-Cookie header that lets a browser read files of the workspaces in one sandbox, in frames and pictures too, which carry no key
 * (agent-server.md section 1). It holds no key: it opens nothing else, for a month at most, and not longer than there is the sandbox.
 */
export function workspaceCookie(row: SandboxRow, scope: CookieScope): string {
  const token = makeToken(row, 0, "workspace", Date.now() + lifeSeconds * 1_000);
  return cookie(`${row.id}~${token}`, scope, lifeSeconds);
}

/** The Set-Cookie header that takes it away. */
export function clearedWorkspaceCookie(scope: CookieScope): string {
  return cookie("", scope, 0);
}

function cookie(value: string, { path, secure }: CookieScope, seconds: number): string {
  const site = secure ? "Secure; SameSite=None; Partitioned" : "SameSite=Lax";
  return `${name}=${value}; Path=${path}; HttpOnly; Max-Age=${seconds}; ${site}`;
}

/** The sandbox that a Cookie header opens, `only` this one where it is named. */
export function workspaceSandbox(
  header: string | undefined,
  only: string | undefined,
  sandboxes: Pick<Sandboxes, "get">,
): SandboxRow | undefined {
  if (!header?.includes(name)) return undefined;
  for (const text of header.split(";").slice(0, 100)) {
    const [, id, token] = /^\s*oh_workspace_session_key=([\w-]{1,64})~(\S+)\s*$/.exec(text) ?? [];
    if (id === undefined || (only !== undefined && id !== only)) continue;
    const row = verifyToken(token!, "workspace", { sandboxId: id, port: 0 }, sandboxes);
    if (row) return row;
  }
  return undefined;
}
