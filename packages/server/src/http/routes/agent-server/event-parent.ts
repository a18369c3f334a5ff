import type { Event } from "@sandpiper/wire";
import type { EventLog } from "../../../store/event-log.ts";

/**
 * Adds `parent_id`, the previous event on the branch, to an event's JSON (events.md section 1); the
 * first event has none. Released clients need it to fork before a message. Stored events have it
 * only after a navigation.
 */
export async function addParentId(events: EventLog, conversationId: string, json: string): Promise<string> {
  const event = JSON.parse(json) as Event;
  if (event.parent_id !== undefined) return json;
  const spans = (await events.pathTo(conversationId, event.id))?.spans ?? [];
  const [before, own] = [spans.at(-2), spans.at(-1)];
  const index = own && (own.last > own.first ? own.last - 1 : before?.last);
  if (index === undefined) return json;
  const [parent] = (await events.search(conversationId, { span: { first: index, last: index }, limit: 1 }))
    .items;
  return parent === undefined
    ? json
    : JSON.stringify({ ...event, parent_id: (JSON.parse(parent) as Event).id });
}
