import { PlatformError } from "@sandpiper/core/errors";
import { parseId } from "@sandpiper/wire";
import type { Conversations } from "../../../conversations/api.ts";
import type { ConversationRow } from "../../../store/conversation-store.ts";
import type { Principal } from "../../server/principal.ts";

/**
 * The conversation of a wire id that a caller may see: a user's own, or one of the sandbox whose session key was given.
 * Undefined for every other one and for texts that are no ids: callers cannot tell these apart.
 */
export function visibleConversation(
  conversations: Pick<Conversations, "get">,
  principal: Principal,
  text: string,
): ConversationRow | undefined {
  const id = parseId(text);
  const row = id === undefined ? undefined : conversations.get(principal.userId, id);
  return row && (principal.sandboxId === undefined || principal.sandboxId === row.sandboxId)
    ? row
    : undefined;
}

/** Like `visibleConversation`. Throws PlatformError ConversationNotFound. */
export function requireConversation(
  conversations: Pick<Conversations, "get">,
  principal: Principal,
  text: string,
): ConversationRow {
  const row = visibleConversation(conversations, principal, text);
  if (!row) throw new PlatformError("ConversationNotFound", "Conversation not found");
  return row;
}
