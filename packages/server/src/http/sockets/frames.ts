import { type ConversationStateUpdateEvent, eventTime, newId, type ServerErrorEvent } from "@sandpiper/wire";

/** A field of the state of a conversation, or `full_state` (agent-server.md section 6.1). */
export function makeStateFrame(key: string, value: unknown): string {
  const event: ConversationStateUpdateEvent = {
    kind: "ConversationStateUpdateEvent",
    ...makeEventBase(),
    source: "environment",
    key,
    value,
  };
  return JSON.stringify(event);
}

/**
 * The response to an invalid frame, or the replacement of one that is too large; never stored.
 * `id`: that of the event that it replaces.
 */
export function makeErrorFrame(code: string, detail: string, id?: string): string {
  const event: ServerErrorEvent = {
    kind: "ServerErrorEvent",
    ...makeEventBase(),
    ...(id !== undefined && { id }),
    source: "environment",
    code,
    detail,
  };
  return JSON.stringify(event);
}

function makeEventBase(): { id: string; timestamp: string } {
  return { id: newId(), timestamp: eventTime(Date.now() * 1000) };
}
