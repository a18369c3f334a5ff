import type { ConversationRow, ConversationStore } from "../../store/conversation-store.ts";
import { getOwnCost } from "../../store/summary.ts";

/** USD that the parent and its other sub-agents have spent: one budget covers all of them. */
export function sumSiblingSpend(
  conversations: Pick<ConversationStore, "get" | "listChildren">,
  row: ConversationRow,
): number {
  const root = row.config.task ? row.parentId : row.id;
  if (!root) return 0;
  const family = [root, ...(conversations.listChildren([root]).get(root) ?? [])];
  const others = family.filter((id) => id !== row.id).flatMap((id) => conversations.get(id) ?? []);
  return others
    .filter(({ id, config }) => id === root || config.task)
    .reduce(
      (sum, { summary: { stats, metrics } }) =>
        sum + (stats ? getOwnCost(stats) : (metrics?.accumulated_cost ?? 0)),
      0,
    );
}
