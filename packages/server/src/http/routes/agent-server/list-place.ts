import { hexId, parseId } from "@sandpiper/wire";
import type { ConversationRow, ConversationSort, ListPlace } from "../../../store/conversation-store.ts";

type Times = Pick<ConversationRow, "id" | "createdAt" | "updatedAt">;

/** The page id of the page after a conversation: its time and id, so that nothing is left out when conversations before it are deleted meanwhile. */
export function pageIdAfter(row: Times, sort: ConversationSort): string {
  return `${timeOf(row, sort)}_${hexId(row.id)}`;
}

/** Reads such a page id, or the bare id of a conversation that `find` knows, to begin with that one (agent-server.md section 3). Undefined: begin again. */
export function readPlace(
  pageId: string | undefined,
  sort: ConversationSort,
  find: (id: string) => Times | undefined,
): ListPlace | undefined {
  const [, digits, text = ""] = /^(?:(\d{1,15})_)?([\da-fA-F-]{32,36})$/.exec(pageId ?? "") ?? [];
  const id = parseId(text);
  if (id === undefined) return undefined;
  if (digits !== undefined) return { id, time: Number(digits), isFirst: false };
  const row = find(id);
  return row && { id, time: timeOf(row, sort), isFirst: true };
}

function timeOf({ createdAt, updatedAt }: Times, sort: ConversationSort): number {
  return sort.startsWith("CREATED") ? createdAt : updatedAt;
}
