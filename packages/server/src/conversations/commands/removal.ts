import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Callbacks } from "../../callbacks/api.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Hub } from "../log/hub.ts";
import { removeWorktree } from "../project/worktree.ts";
import type { Runner } from "../run/runner.ts";
import type { SubAgents } from "../run/sub-agents.ts";

interface SandboxRemoval {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "remove">;
}

export interface RemovalDeps {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "remove" | "running">;
  callbacks: Pick<Callbacks, "drop" | "farewell">;
  runner: Pick<Runner, "remove">;
  hub: Pick<Hub, "notifyDeletion">;
  subAgents: Pick<SubAgents, "notifyRemoved">;
}

/**
 * Ends the run of a conversation and removes it, after its sub-conversations; its sandbox as `removeWithSandbox`. Throws BadRequest where it has to stay and
 * sub-conversations are in others.
 */
export async function removeConversation(
  deps: RemovalDeps,
  row: ConversationRow,
  { keepSandbox = false } = {},
): Promise<void> {
  const { store, callbacks } = deps;
  const { conversations } = store;
  const { id } = row;
  const tellDeletion = callbacks.farewell(id);
  // Again where it has got a child meanwhile.
  do {
    const children = (conversations.childrenOf([id]).get(id) ?? []).flatMap(
      (child) => conversations.get(child) ?? [],
    );
    if (keepSandbox && children.some(({ sandboxId }) => sandboxId !== row.sandboxId))
      throw new PlatformError(
        "BadRequest",
        "The conversation has sub-conversations in other sandboxes: delete them first.",
      );
    for (const child of children)
      if (conversations.get(child.id)) await removeConversation(deps, child, { keepSandbox });
    await deps.runner.remove(id);
    await removeWithSandbox(deps, row, { keepSandbox });
    await callbacks.drop(id);
  } while (conversations.get(id));
  deps.hub.notifyDeletion(id);
  deps.subAgents.notifyRemoved(id);
  await removeWorktree(deps, row, row.config.worktree);
  tellDeletion();
}

/**
 * Removes a conversation without children, and in the same transaction its sandbox where no other conversation is in it: no crash leaves one of them.
 * `endsStart` is what the task of a start says that goes on. One with children stays. Throws what the removal of a sandbox throws, and StorageFull.
 */
export async function removeWithSandbox(
  { store: { conversations }, sandboxes }: SandboxRemoval,
  { id, userId, sandboxId }: Pick<ConversationRow, "id" | "userId" | "sandboxId">,
  { keepSandbox = false, endsStart }: { keepSandbox?: boolean; endsStart?: string } = {},
): Promise<void> {
  const remove = async () => void (conversations.get(id) && (await conversations.remove(id, endsStart)));
  const isLast = conversations.bySandbox(sandboxId).every((other) => other.id === id);
  if (isLast && !keepSandbox && sandboxes.get(userId, sandboxId))
    await sandboxes.remove(userId, sandboxId, remove);
  await remove();
}
