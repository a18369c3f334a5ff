import { PlatformError } from "../../errors.ts";
import type { Sandboxes } from "../../sandboxes/api.ts";
import type { Sandbox } from "../../sandboxes/sandbox.ts";
import type { Principal } from "../principal.ts";
import { sandboxId } from "./sandboxes.ts";

/**
 * The running sandbox of that id, for its user and for the holder of its own session key. It is woken when it is paused.
 * Throws SandboxNotFound, also for another's sandbox, and what `running` throws.
 */
export async function runningSandbox(sandboxes: Sandboxes, principal: Principal, text: string): Promise<Sandbox> {
  const row = sandboxes.get(principal.userId, sandboxId(text));
  if (!row || (principal.sandboxId !== undefined && principal.sandboxId !== row.id))
    throw new PlatformError("SandboxNotFound", "Sandbox not found");
  return sandboxes.running(row.id);
}
