import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { requireSandbox } from "../../../conversations/access.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";

/**
 * The record of a conversation's sandbox, which must be running now: these routes do not wake one (app-server.md sections 2.7 and 2.9).
 * Throws ConversationArchived where it is gone, SandboxInError, and SandboxNotRunning otherwise.
 */
export function requireRunning(sandboxes: Sandboxes, conversation: ConversationRow): SandboxRow {
  const row = requireSandbox(sandboxes, conversation);
  if (row.status === "RUNNING") return row;
  if (row.status === "ERROR") {
    throw new PlatformError(
      "SandboxInError",
      `The sandbox ${row.id} has failed${row.statusDetail ? `: ${row.statusDetail}` : "."}`,
    );
  }
  throw new PlatformError(
    "SandboxNotRunning",
    `The sandbox is not running (its status is ${row.status}): resume it with POST /api/v1/sandboxes/${row.id}/resume and try again.`,
  );
}

/** The running sandbox of a conversation; undefined where it does not run now, or cannot be reached. */
export async function sandboxIfRunning(
  sandboxes: Sandboxes,
  row: ConversationRow,
): Promise<Sandbox | undefined> {
  const { status, id } = sandboxes.get(row.userId, row.sandboxId) ?? {};
  if (status !== "RUNNING" || id === undefined) return undefined;
  return sandboxes.running(id).catch(() => undefined);
}
