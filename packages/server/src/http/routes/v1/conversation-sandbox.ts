import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { requireSandbox } from "../../../conversations/lookup.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";

/**
 * The record of a conversation's sandbox, which must be running: these routes do not wake it
 * (app-server.md sections 2.7 and 2.9). Throws ConversationArchived when it is deleted,
 * SandboxInError, and SandboxNotRunning otherwise.
 */
export async function requireRunning(
  sandboxes: Sandboxes,
  conversation: ConversationRow,
): Promise<SandboxRow> {
  const row = await requireSandbox(sandboxes, conversation);
  if (row.status === "RUNNING") return row;
  if (row.status === "ERROR") {
    throw new PlatformError("ConversationSandboxFailed", {
      id: row.id,
      detail: row.statusDetail ? `: ${row.statusDetail}` : ".",
    });
  }
  throw new PlatformError("ConversationSandboxNotRunning", { id: row.id, status: row.status });
}

/** The running sandbox of a conversation; undefined if it does not run or is unreachable. */
export async function findRunningSandbox(
  sandboxes: Sandboxes,
  row: ConversationRow,
): Promise<Sandbox | undefined> {
  const { status, id } = (await sandboxes.get(row.userId, row.sandboxId)) ?? {};
  if (status !== "RUNNING" || id === undefined) return undefined;
  return sandboxes.running(id).catch(() => undefined);
}
