import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow, FailedStart } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Hub } from "../log/hub.ts";
import { removeWorktree } from "../project/worktree.ts";
import { endConversationShell } from "../run/held-shells.ts";
import type { Runner } from "../run/runner.ts";
import type { SubAgentRunner } from "../run/sub-agent-runner.ts";
import type { SandboxJoins } from "../sandbox-joins.ts";

interface SandboxRemoval {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "remove">;
  joins: Pick<SandboxJoins, "remove">;
}

export interface RemovalDeps {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "remove" | "running">;
  joins: Pick<SandboxJoins, "remove">;
  callbacks: Pick<Callbacks, "drop" | "notifyDeletion">;
  runner: Pick<Runner, "remove">;
  hub: Pick<Hub, "notifyDeletion">;
  subAgents: Pick<SubAgentRunner, "notifyRemoved">;
}

/**
 * Ends the run of a conversation and removes it after its sub-conversations, with its sandbox as in
 * `removeWithSandbox`. Throws BadRequest when `keepSandbox` is set and sub-conversations are in
 * other sandboxes.
 */
export async function removeConversation(
  deps: RemovalDeps,
  row: ConversationRow,
  { keepSandbox = false } = {},
): Promise<void> {
  const { store, callbacks } = deps;
  const { conversations } = store;
  const { id } = row;
  const notifyDeletion = await callbacks.notifyDeletion(id);
  // Repeated when a child was created in the meantime.
  do {
    const children: ConversationRow[] = [];
    for (const childId of (await conversations.listChildren([id])).get(id) ?? []) {
      const child = await conversations.get(childId);
      if (child) children.push(child);
    }
    if (keepSandbox && children.some(({ sandboxId }) => sandboxId !== row.sandboxId))
      throw new PlatformError("ChildrenInOtherSandboxes");
    for (const child of children)
      if (await conversations.get(child.id)) await removeConversation(deps, child, { keepSandbox });
    await deps.runner.remove(id);
    await removeWithSandbox(deps, row, { keepSandbox });
    await callbacks.drop(id);
  } while (await conversations.get(id));
  deps.hub.notifyDeletion(id);
  deps.subAgents.notifyRemoved(id);
  await endConversationShell(deps.sandboxes, row);
  await removeWorktree(deps, row, row.config.worktree);
  notifyDeletion();
}

/**
 * Removes a conversation without children, and in one transaction the record of its sandbox, unless
 * other conversations use it or join it. `failedStart` is as in `ConversationStore.remove`. A
 * conversation with children stays. Throws what the removal of a sandbox throws, and StorageFull.
 */
export async function removeWithSandbox(
  { store: { conversations }, sandboxes, joins }: SandboxRemoval,
  { id, userId, sandboxId }: Pick<ConversationRow, "id" | "userId" | "sandboxId">,
  { keepSandbox = false, failedStart }: { keepSandbox?: boolean; failedStart?: FailedStart } = {},
): Promise<void> {
  const remove = (gone?: string): Promise<unknown> =>
    conversations.remove(id, { failedStart, sandboxId: gone }).catch(ignore("ConversationNotFound"));
  const isLast = async () =>
    (await conversations.listBySandbox(sandboxId)).every((other) => other.id === id) &&
    (await sandboxes.get(userId, sandboxId)) !== undefined;
  const removeBoth = () =>
    sandboxes.remove(userId, sandboxId, () => remove(sandboxId)).catch(ignore("SandboxNotFound"));
  if (!keepSandbox) await joins.remove(sandboxId, isLast, removeBoth);
  if ((await conversations.get(id))?.sandboxId === sandboxId) await remove();
}

/** Ignores the error when another removal was faster. */
function ignore(code: PlatformError["code"]): (error: unknown) => void {
  return (error) => {
    if (!(error instanceof PlatformError && error.code === code)) throw error;
  };
}
