import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { FastifyRequest } from "fastify";
import { endingWithClient } from "../../server/ending-with-client.ts";
import { normalizeSandboxId } from "./sandboxes.ts";

/**
 * The sandbox of that id, for its user and its session key; wakes a paused one. What a GET request
 * runs in it ends when the client leaves. Throws
 * SandboxNotFound, also for another user's sandbox, and what `running` throws.
 */
export async function openSandbox(
  sandboxes: Sandboxes,
  request: FastifyRequest,
  text: string,
): Promise<Sandbox> {
  const { principal } = request;
  const row = await sandboxes.get(principal.userId, normalizeSandboxId(text));
  if (!row || (principal.sandboxId !== undefined && principal.sandboxId !== row.id))
    throw new PlatformError("SandboxUnknown");
  return endingWithClient(request, await sandboxes.running(row.id));
}
