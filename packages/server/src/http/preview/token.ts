import { createHmac, timingSafeEqual } from "node:crypto";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";

/**
 * What a token is good for. A `link` stands in a URL that the platform gives out and is exchanged for a `session`, which stands in a cookie or in
 * the path. A session cannot be exchanged: the previewed page may know its own, and must not be able to prolong it. A `workspace` token, of port 0,
 * opens the files of workspaces (agent-server/workspace-cookie.ts).
 */
export type TokenPurpose = "link" | "session" | "workspace";

export interface PortOfSandbox {
  sandboxId: string;
  port: number;
}

const shape = /^([0-9a-z]{1,10})\.([A-Za-z0-9_-]{1,256})\.([A-Za-z0-9_-]{43})$/;

export function isToken(text: string): boolean {
  return shape.test(text);
}

/**
 * A token that opens one port of one sandbox for its owner until `expires` (ms since the epoch, counted in whole seconds). It is signed with the
 * sandbox's session key, which is stored encrypted: it survives restarts, and is void as soon as the sandbox is deleted.
 */
export function makeToken(row: SandboxRow, port: number, purpose: TokenPurpose, expires: number): string {
  const seconds = Math.floor(expires / 1000).toString(36);
  const user = Buffer.from(row.userId).toString("base64url");
  return `${seconds}.${user}.${signature(row, port, purpose, seconds).toString("base64url")}`;
}

/** The sandbox that a token opens; undefined for a token of another port or purpose, and for an expired one. */
export function openToken(
  text: string,
  purpose: TokenPurpose,
  { sandboxId, port }: PortOfSandbox,
  sandboxes: Pick<Sandboxes, "get">,
): SandboxRow | undefined {
  const parts = shape.exec(text);
  if (!parts) return undefined;
  const [, seconds, user, signed] = parts as unknown as [string, string, string, string];
  if (Number.parseInt(seconds, 36) * 1000 <= Date.now()) return undefined;
  const row = sandboxes.get(Buffer.from(user, "base64url").toString(), sandboxId);
  if (!row) return undefined;
  return timingSafeEqual(Buffer.from(signed, "base64url"), signature(row, port, purpose, seconds))
    ? row
    : undefined;
}

function signature(row: SandboxRow, port: number, purpose: TokenPurpose, seconds: string): Buffer {
  const text = JSON.stringify(["sandpiper preview", purpose, row.id, row.userId, port, seconds]);
  return createHmac("sha256", row.sessionKey).update(text).digest();
}
