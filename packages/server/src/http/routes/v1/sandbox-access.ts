import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { Principal } from "../../server/principal.ts";
import { sandboxId } from "./sandboxes.ts";

/**
 * The running sandbox of that id, for its user and for the holder of its own session key. It is woken when it is paused.
 * Throws SandboxNotFound, also for another's sandbox, and what `running` throws.
 */
export async function runningSandbox(
  sandboxes: Sandboxes,
  principal: Principal,
  text: string,
): Promise<Sandbox> {
  const row = sandboxes.get(principal.userId, sandboxId(text));
  if (!row || (principal.sandboxId !== undefined && principal.sandboxId !== row.id))
    throw new PlatformError("SandboxNotFound", "Sandbox not found");
  return sandboxes.running(row.id);
}
