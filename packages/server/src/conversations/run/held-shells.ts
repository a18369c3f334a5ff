import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { endHeldShell } from "@sandpiper/sandbox/shell/held/held-shell";
import { listHeldShells } from "@sandpiper/sandbox/shell/held/held-state";
import { hexId, parseId } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";

/** Folder in the sandbox with a folder for the state of each conversation's shell. */
const parent = "/tmp/terminal_output";

/** Folder in the sandbox with the state of a conversation's shell. */
export function getHeldFolder(conversationId: string): string {
  return `${parent}/held_${hexId(conversationId)}`;
}

/**
 * Returns the ids of the conversations whose held shells live in a sandbox, the one whose last
 * command began first before the others. Throws what `exec` throws.
 */
export async function listConversationShells(sandbox: Sandbox): Promise<string[]> {
  const names = await listHeldShells(sandbox, parent);
  return names.flatMap((name) => parseId(name.replace("held_", "")) ?? []);
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
