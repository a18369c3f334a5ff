import type { Sandboxes } from "@sandpiper/sandbox/api";
import { endHeldShell } from "@sandpiper/sandbox/shell/held/held-shell";
import { hexId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";

/** Folder in the sandbox with the state of a conversation's shell. */
export function getHeldFolder(conversationId: string): string {
  return `/tmp/terminal_output/held_${hexId(conversationId)}`;
}

/**
 * Ends the held shell of a deleted conversation; an earlier server may have opened it. Does not
 * wake a sandbox for that: the next stop of the sandbox ends the shell. Never rejects.
 */
export async function endConversationShell(
  sandboxes: Pick<Sandboxes, "get" | "running">,
  { id, userId, sandboxId }: Pick<ConversationRow, "id" | "userId" | "sandboxId">,
): Promise<void> {
  try {
    if ((await sandboxes.get(userId, sandboxId))?.status !== "RUNNING") return;
    await endHeldShell(await sandboxes.running(sandboxId), getHeldFolder(id));
  } catch {
    // The failure does not matter when the sandbox and its processes are being removed.
  }
}
