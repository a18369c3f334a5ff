import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { Principal } from "../../server/principal.ts";
import { normalizeSandboxId } from "./sandboxes.ts";

/**
 * The sandbox of that id, for its user and its session key; wakes a paused one. Throws
 * SandboxNotFound, also for another user's sandbox, and what `running` throws.
 */
export async function openSandbox(
  sandboxes: Sandboxes,
  principal: Principal,
  text: string,
): Promise<Sandbox> {
  const row = sandboxes.get(principal.userId, normalizeSandboxId(text));
  if (!row || (principal.sandboxId !== undefined && principal.sandboxId !== row.id))
    throw new PlatformError("SandboxUnknown");
  return sandboxes.running(row.id);
}
