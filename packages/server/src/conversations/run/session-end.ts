import type { NewRecord } from "@sandpiper/agent/loop/log-record";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { ConversationHooks } from "./conversation-hooks.ts";
import { makeModelOpener, type RunEnvironmentDeps } from "./run-environment.ts";
import type { Workspaces } from "./workspaces.ts";

interface SessionEndDeps extends Pick<RunEnvironmentDeps, "store" | "agents" | "masks" | "openModel"> {
  sandboxes: Pick<Sandboxes, "get">;
  hooks: Pick<ConversationHooks, "hasSessionEnd" | "endSession">;
  workspaces: Pick<Workspaces, "getOrCreate">;
}

/** Runs the SessionEnd hooks, if the conversation's sandbox is running. */
export async function endSession(deps: SessionEndDeps, conversationId: string, maxMs: number): Promise<void> {
  const { store, sandboxes, hooks, masks, workspaces } = deps;
  const row = store.conversations.get(conversationId);
  if (!row || !hooks.hasSessionEnd(row) || sandboxes.get(row.userId, row.sandboxId)?.status !== "RUNNING")
    return;
  const parts = {
    sandbox: () => workspaces.getOrCreate(row).sandbox(),
    openModel: makeModelOpener(deps, row),
    mask: () => masks.forConversation(row),
    append: (records: NewRecord[]) => store.events.append(conversationId, records),
    signal: AbortSignal.timeout(maxMs),
  };
  await hooks.endSession(row, parts).catch(() => {});
}
