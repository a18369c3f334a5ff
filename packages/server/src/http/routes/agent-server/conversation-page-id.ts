import { hexId, parseId } from "@sandpiper/wire";
import type { ConversationRow, ConversationSort, ListPosition } from "../../../store/conversation-store.ts";

type Times = Pick<ConversationRow, "id" | "createdAt" | "updatedAt">;

/**
 * The page id after a conversation: time and id, so that deletions on earlier pages do not skip
 * items.
 */
export function makePageId(row: Times, sort: ConversationSort): string {
  return `${getTime(row, sort)}_${hexId(row.id)}`;
}

/**
 * Parses such a page id, or the id of a conversation known to `find`, which then comes first
 * (agent-server.md section 3). Undefined starts at the beginning.
 */
export async function parsePageId(
  pageId: string | undefined,
  sort: ConversationSort,
  find: (id: string) => Promise<Times | undefined>,
): Promise<ListPosition | undefined> {
  const [, digits, text = ""] = /^(?:(\d{1,15})_)?([\da-fA-F-]{32,36})$/.exec(pageId ?? "") ?? [];
  const id = parseId(text);
  if (id === undefined) return undefined;
  if (digits !== undefined) return { id, time: Number(digits), isFirst: false };
  const row = await find(id);
  return row && { id, time: getTime(row, sort), isFirst: true };
}

function getTime({ createdAt, updatedAt }: Times, sort: ConversationSort): number {
  return sort.startsWith("CREATED") ? createdAt : updatedAt;
}
