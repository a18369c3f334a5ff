import { PlatformError } from "../errors.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { SandboxRow } from "../store/sandbox-store.ts";

/**
 * The record of a conversation's sandbox. Throws ConversationArchived where the sandbox is gone: such a conversation is only read
 * (app-server.md section 4), and a run of it would pay a model for work that no tool can do.
 */
export function requireSandbox(
  sandboxes: Pick<Sandboxes, "get">,
  { userId, sandboxId }: Pick<ConversationRow, "userId" | "sandboxId">,
): SandboxRow {
  const row = sandboxes.get(userId, sandboxId);
  if (row) return row;
  throw new PlatformError(
    "ConversationArchived",
    "The conversation is archived: its sandbox is gone, and only its events are left.",
  );
}
