import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import type { FastifyRequest } from "fastify";
import { normalizeSandboxId } from "../v1/sandboxes.ts";

/**
 * The sandbox of a request to the agent-server surface: the session key's, even with a user's key
 * added by a proxy, else the one in the query. Throws BadRequest, SandboxNotFound.
 */
export async function requireAgentSandbox(
  sandboxes: Pick<Sandboxes, "get">,
  request: FastifyRequest,
  named: string | undefined,
): Promise<SandboxRow> {
  const { userId, sandboxId, besideSandboxId } = request.principal;
  const id = sandboxId ?? besideSandboxId ?? (named === undefined ? undefined : normalizeSandboxId(named));
  if (id === undefined) {
    throw new PlatformError("SandboxNotNamed");
  }
  const row = await sandboxes.get(userId, id);
  if (!row) throw new PlatformError("SandboxUnknown");
  return row;
}
