import { type Event, parseId } from "@sandpiper/wire";
import type { EventLog, EventQuery } from "../../../store/event-log.ts";
import { countScanned, matches, needsScan, type ScanContext, type ScanFilter } from "./event-scan.ts";

/**
 * Resolves a page id: an event's id becomes the position of that event, as in the reference
 * (agent-server.md section 5).
 */
export async function resolvePageId(
  events: EventLog,
  conversationId: string,
  query: Omit<EventQuery, "limit">,
  filter: ScanFilter,
  who: ScanContext,
): Promise<string | undefined> {
  const { pageId, descending, ...wanted } = query;
  const [json] = pageId === undefined ? [] : await events.batch(conversationId, [parseId(pageId) ?? pageId]);
  if (!json) return pageId;
  const event = JSON.parse(json) as Event;
  const { timestampLt, kind } = wanted;
  const before = {
    ...wanted,
    timestampLt: timestampLt && timestampLt < event.timestamp ? timestampLt : event.timestamp,
  };
  const count = async (some: Omit<EventQuery, "limit">) =>
    needsScan(filter)
      ? countScanned(events, conversationId, some, filter, who)
      : events.count(conversationId, some);
  const earlier = await count(before);
  if (!descending) return String(earlier);
  const isOne = matches(event, filter) && (kind === undefined || event.kind === kind);
  const later = (await count(wanted)) - earlier - (isOne && isInTime(event, query) ? 1 : 0);
  return String(later);
}

/** A page whose next page id is an event's id, so that new events do not shift pages. */
export async function searchWithEventId(
  events: EventLog,
  conversationId: string,
  query: EventQuery,
): ReturnType<EventLog["search"]> {
  const { items, nextPageId } = await events.search(conversationId, query);
  if (nextPageId === null) return { items, nextPageId };
  const [next] = (await events.search(conversationId, { ...query, pageId: nextPageId, limit: 1 })).items;
  return { items, nextPageId: next === undefined ? nextPageId : (JSON.parse(next) as Event).id };
}

function isInTime({ timestamp }: Event, { timestampGte, timestampLt }: Omit<EventQuery, "limit">): boolean {
  return (
    (timestampGte === undefined || timestamp >= timestampGte) &&
    (timestampLt === undefined || timestamp < timestampLt)
  );
}
