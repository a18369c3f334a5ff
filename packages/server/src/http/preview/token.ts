import { createHmac, timingSafeEqual } from "node:crypto";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";

/**
 * A `link` appears in URLs and is exchanged for a `session` in a cookie or path, which cannot be
 * exchanged, because the previewed page may know its own and must not prolong it. A `workspace`
 * token (port 0) opens the files of workspaces (agent-server/workspace-cookie.ts).
 */
export type TokenPurpose = "link" | "session" | "workspace";

export interface SandboxPort {
  sandboxId: string;
  port: number;
}

const tokenPattern = /^([0-9a-z]{1,10})\.([A-Za-z0-9_-]{1,256})\.([A-Za-z0-9_-]{43})$/;

export function isToken(text: string): boolean {
  return tokenPattern.test(text);
}

/**
 * Makes a token that opens a sandbox's port for its owner until `expires` (ms since the epoch,
 * whole seconds). Signed with the sandbox's encrypted session key: it survives restarts and ends
 * with the sandbox.
 */
export function makeToken(row: SandboxRow, port: number, purpose: TokenPurpose, expires: number): string {
  const seconds = Math.floor(expires / 1000).toString(36);
  const user = Buffer.from(row.userId).toString("base64url");
  return `${seconds}.${user}.${sign(row, port, purpose, seconds).toString("base64url")}`;
}

/** The sandbox that a token opens; undefined for another port or purpose, or after expiry. */
export function verifyToken(
  text: string,
  purpose: TokenPurpose,
  { sandboxId, port }: SandboxPort,
  sandboxes: Pick<Sandboxes, "get">,
): SandboxRow | undefined {
  const parts = tokenPattern.exec(text);
  if (!parts) return undefined;
  const [, seconds = "", user = "", signed = ""] = parts;
  if (Number.parseInt(seconds, 36) * 1000 <= Date.now()) return undefined;
  const row = sandboxes.get(Buffer.from(user, "base64url").toString(), sandboxId);
  if (!row) return undefined;
  return timingSafeEqual(Buffer.from(signed, "base64url"), sign(row, port, purpose, seconds))
    ? row
    : undefined;
}

function sign(row: SandboxRow, port: number, purpose: TokenPurpose, seconds: string): Buffer {
  const text = JSON.stringify(["sandpiper preview", purpose, row.id, row.userId, port, seconds]);
  return createHmac("sha256", row.sessionKey).update(text).digest();
}
