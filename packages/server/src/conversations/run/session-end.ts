import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationHooks } from "./conversation-hooks.ts";
import { type EnvironmentSources, modelOf } from "./run-environment.ts";
import type { Workspaces } from "./workspaces.ts";

interface SessionEndDependencies
  extends Pick<EnvironmentSources, "store" | "agents" | "masks" | "openModel"> {
  sandboxes: Pick<Sandboxes, "get">;
  hooks: Pick<ConversationHooks, "hasEnd" | "endSession">;
  workspaces: Pick<Workspaces, "of">;
}

/** Runs the hooks of a session's end, where the conversation's sandbox runs and as long as there is time. */
export async function endSession(
  deps: SessionEndDependencies,
  conversationId: string,
  mostMs: number,
): Promise<void> {
  const { store, sandboxes, hooks, masks, workspaces } = deps;
  const row = store.conversations.get(conversationId);
  if (!row || !hooks.hasEnd(row) || sandboxes.get(row.userId, row.sandboxId)?.status !== "RUNNING") return;
  const parts = {
    sandbox: () => workspaces.of(row).sandbox(),
    openModel: modelOf(deps, row),
    mask: () => masks.forConversation(row),
    append: (records: NewRecord[]) => store.events.append(conversationId, records),
    signal: AbortSignal.timeout(mostMs),
  };
  await hooks.endSession(row, parts).catch(() => {});
}
