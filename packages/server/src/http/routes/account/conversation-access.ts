import { PlatformError } from "@sandpiper/core/errors";
import { parseId } from "@sandpiper/wire";
import type { Conversations } from "../../../conversations/api.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";
import type { Principal } from "../../server/principal.ts";

/**
 * The caller's conversation of that id: a user's own, or one in the session key's sandbox.
 * Undefined for all others and for malformed ids, which callers cannot tell apart.
 */
export async function visibleConversation(
  conversations: Pick<Conversations, "reads">,
  principal: Principal,
  text: string,
): Promise<ConversationRow | undefined> {
  const id = parseId(text);
  const row = id === undefined ? undefined : await conversations.reads.get(principal.userId, id);
  return row && (principal.sandboxId === undefined || principal.sandboxId === row.sandboxId)
    ? row
    : undefined;
}

/** Like `visibleConversation`, but throws PlatformError ConversationNotFound. */
export async function requireConversation(
  conversations: Pick<Conversations, "reads">,
  principal: Principal,
  text: string,
): Promise<ConversationRow> {
  const row = await visibleConversation(conversations, principal, text);
  if (!row) throw new PlatformError("ConversationUnknown");
  return row;
}
