import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { FastifyRequest } from "fastify";
import { getKeys } from "../../server/auth.ts";
import { sandboxId } from "../v1/sandboxes.ts";

/**
 * The sandbox that a request to the agent-server surface means: that of its session key, also where a user's key comes along (as behind a proxy that
 * adds one); with a user's key alone the one that the query names. Throws BadRequest, SandboxNotFound.
 */
export function agentSandbox(
  sandboxes: Sandboxes,
  request: FastifyRequest,
  named: string | undefined,
): SandboxRow {
  const { userId, sandboxId: own } = request.principal;
  for (const key of own === undefined ? getKeys(request.headers) : []) {
    const row = sandboxes.bySessionKey(key);
    if (row?.userId === userId) return row;
  }
  const id = own ?? (named === undefined ? undefined : sandboxId(named));
  if (id === undefined) {
    throw new PlatformError(
      "BadRequest",
      "Name the sandbox: send its session key as X-Session-API-Key, or sandbox_id in the query.",
    );
  }
  const row = sandboxes.get(userId, id);
  if (!row) throw new PlatformError("SandboxNotFound", "Sandbox not found");
  return row;
}
