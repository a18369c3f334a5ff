import { type ConversationStateUpdateEvent, eventTime, newId, type ServerErrorEvent } from "@sandpiper/wire";

/** Frames that the socket makes itself; they are never stored. */

/** The whole state of a conversation (agent-server.md section 6.1). */
export function fullStateFrame(value: Record<string, unknown>): string {
  const event: ConversationStateUpdateEvent = {
    kind: "ConversationStateUpdateEvent",
    ...stamp(),
    source: "environment",
    key: "full_state",
    value,
  };
  return JSON.stringify(event);
}

/** The answer to a frame that could not be processed, or in place of one that cannot be sent. */
export function serverErrorFrame(code: string, detail: string): string {
  const event: ServerErrorEvent = {
    kind: "ServerErrorEvent",
    ...stamp(),
    source: "environment",
    code,
    detail,
  };
  return JSON.stringify(event);
}

function stamp(): { id: string; timestamp: string } {
  return { id: newId(), timestamp: eventTime(Date.now() * 1000) };
}
