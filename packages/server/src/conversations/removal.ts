import type { Sandboxes } from "../sandboxes/api.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { Store } from "../store/store.ts";

interface RemovalDependencies {
  store: Pick<Store, "conversations">;
  sandboxes: Pick<Sandboxes, "get" | "remove">;
}

/**
 * Removes a conversation without children, and in the same transaction its sandbox where no other conversation is in it: no crash leaves one of them.
 * `endsStart` is what the task of a start says that goes on. One with children stays. Throws what the removal of a sandbox throws, and StorageFull.
 */
export async function removeWithSandbox(
  { store: { conversations }, sandboxes }: RemovalDependencies,
  { id, userId, sandboxId }: Pick<ConversationRow, "id" | "userId" | "sandboxId">,
  { keepSandbox = false, endsStart }: { keepSandbox?: boolean; endsStart?: string } = {},
): Promise<void> {
  const remove = async () => void (conversations.get(id) && (await conversations.remove(id, endsStart)));
  const isLast = conversations.bySandbox(sandboxId).every((other) => other.id === id);
  if (isLast && !keepSandbox && sandboxes.get(userId, sandboxId)) await sandboxes.remove(userId, sandboxId, remove);
  await remove();
}
