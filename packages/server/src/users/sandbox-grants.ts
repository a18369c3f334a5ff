import { createHmac, timingSafeEqual } from "node:crypto";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { CredentialSources } from "./api.ts";

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

/** Access to one sandbox, made from a key or login of its user. */
export interface SandboxGrant {
  row: SandboxRow;
  /** The key or login (`KeyHolder`), with which the grant ends. */
  source: string;
}

const sessionKeyPattern = /^ses_([\w-]{1,64})\.([\w-]{1,64})\.([\w-]{43})$/;
const tokenPattern = /^([0-9a-z]{1,10})\.([\w-]{1,64})\.([\w-]{43})$/;

export function isToken(text: string): boolean {
  return tokenPattern.test(text);
}

/**
 * The session key of a sandbox for a caller. Signed with the sandbox's encrypted secret: it
 * survives restarts, and ends with the sandbox and with the caller's key or login.
 */
export function makeSessionKey({ row, source }: SandboxGrant): string {
  return `ses_${row.id}.${source}.${sign(row, ["session key", source]).toString("base64url")}`;
}

/**
 * Makes a token that opens a sandbox's port until `expires` (ms since the epoch, whole seconds). It
 * ends earlier with what a session key ends with.
 */
export function makeToken(
  { row, source }: SandboxGrant,
  port: number,
  purpose: TokenPurpose,
  expires: number,
): string {
  const seconds = Math.floor(expires / 1000).toString(36);
  return `${seconds}.${source}.${sign(row, [purpose, source, port, seconds]).toString("base64url")}`;
}

export interface SandboxGrantsDeps {
  sandboxes: Pick<Sandboxes, "get">;
  sources: Pick<CredentialSources, "holder">;
}

/** Checks session keys and tokens of sandboxes. */
export class SandboxGrants {
  readonly #deps: SandboxGrantsDeps;

  constructor(deps: SandboxGrantsDeps) {
    this.#deps = deps;
  }

  async bySessionKey(key: string): Promise<SandboxGrant | undefined> {
    const [, sandboxId = "", source = "", signature = ""] = sessionKeyPattern.exec(key) ?? [];
    return this.#find({ sandboxId, source, signature }, ["session key", source]);
  }

  /** What a token opens; undefined for another port or purpose, or after expiry. */
  async byToken(
    text: string,
    purpose: TokenPurpose,
    { sandboxId, port }: SandboxPort,
  ): Promise<SandboxGrant | undefined> {
    const [, seconds = "", source = "", signature = ""] = tokenPattern.exec(text) ?? [];
    if (!(Number.parseInt(seconds, 36) * 1000 > Date.now())) return undefined;
    return this.#find({ sandboxId, source, signature }, [purpose, source, port, seconds]);
  }

  async #find(
    { sandboxId, source, signature }: { sandboxId: string; source: string; signature: string },
    signed: readonly (string | number)[],
  ): Promise<SandboxGrant | undefined> {
    const holder = source === "" ? undefined : await this.#deps.sources.holder(source);
    const row = holder && (await this.#deps.sandboxes.get(holder.userId, sandboxId));
    if (!row || !timingSafeEqual(Buffer.from(signature, "base64url"), sign(row, signed))) return undefined;
    return { row, source };
  }
}

function sign(row: SandboxRow, signed: readonly (string | number)[]): Buffer {
  const text = JSON.stringify(["sandpiper sandbox", row.id, row.userId, ...signed]);
  return createHmac("sha256", row.sessionKey).update(text).digest();
}
