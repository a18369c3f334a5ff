import type { Event } from "@sandpiper/wire";
import type { EventLog } from "../../../store/event-log.ts";

/**
 * The JSON of an event with the id of the one before it on its branch (events.md section 1, parent_id), which the first event has not. Released
 * clients read it to fork a conversation before a message. Stored events name it only where a conversation was navigated.
 */
export function withParent(events: EventLog, conversationId: string, json: string): string {
  const event = JSON.parse(json) as Event;
  if (event.parent_id !== undefined) return json;
  const spans = events.wayTo(conversationId, event.id)?.spans ?? [];
  const [before, own] = [spans.at(-2), spans.at(-1)];
  const index = own && (own.last > own.first ? own.last - 1 : before?.last);
  if (index === undefined) return json;
  const [parent] = events.search(conversationId, { span: { first: index, last: index }, limit: 1 }).items;
  return parent === undefined
    ? json
    : JSON.stringify({ ...event, parent_id: (JSON.parse(parent) as Event).id });
}
