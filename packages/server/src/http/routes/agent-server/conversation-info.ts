import { PlatformError } from "@sandpiper/core/errors";
import { type AppConversation, hexId, parseId } from "@sandpiper/wire";
import type { Conversations } from "../../../conversations/api.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";
import type { Viewer } from "../../../users/api.ts";
import type { Principal } from "../../server/principal.ts";
import { toLegacyConversation, toLegacyStart } from "../v0/legacy-conversation.ts";

type Reads = Pick<Conversations, "reads" | "live">;

/**
 * A conversation in both shapes (agent-server.md section 3.2, legacy-gui.md section 7.4). Throws
 * ConversationNotFound.
 */
export async function toConversationInfo(
  conversations: Reads,
  row: ConversationRow,
  viewer: Viewer,
  options?: { skills: boolean },
) {
  const [info, [shown]] = await Promise.all([
    conversations.reads.info(row, options),
    conversations.reads.batch(viewer, [row.id]),
  ]);
  // It may have been deleted since its row was read.
  if (!shown) throw new PlatformError("ConversationUnknown");
  return { ...info, ...toLegacy(conversations, shown) };
}

/**
 * A conversation that its start has not created yet, for clients that know its id from a V0 start.
 */
export async function findStartingInfo(
  conversations: Pick<Conversations, "starts">,
  { userId, sandboxId }: Principal,
  path: { conversation_id: string },
) {
  const conversationId = sandboxId === undefined ? parseId(path.conversation_id) : undefined;
  if (conversationId === undefined) return undefined;
  const { items } = await conversations.starts.tasks.search(
    { userId, conversationId },
    { limit: 1, sort: "CREATED_AT_DESC" },
  );
  const [task] = items;
  if (!task || task.status === "ERROR" || task.status === "READY") return undefined;
  const { created_at, updated_at } = task;
  const row = {
    id: conversationId,
    title: null,
    tags: {},
    metrics: null,
    execution_status: "idle" as const,
    parent_conversation_id: null,
  };
  return { ...row, updated_at, ...toLegacyStart(hexId(conversationId), created_at, updated_at) };
}

/** The legacy shape of a conversation, with its number of followers. */
export function toLegacy(conversations: Pick<Conversations, "live">, shown: AppConversation) {
  return toLegacyConversation(shown, { connections: conversations.live.followers(parseId(shown.id)!) });
}
