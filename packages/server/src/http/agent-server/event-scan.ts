import { contentText, type Event } from "@sandpiper/wire";
import type { EventLog, EventQuery } from "../../store/event-log.ts";
import { pageOffset, toPage } from "../../store/paging.ts";

/** What the log has no index for (agent-server.md section 5): who an event is from, and a text inside of messages. */
export interface ScanFilter {
  source?: string | undefined;
  /** Matched without regard to case, in MessageEvents only. */
  body?: string | undefined;
}

const scanPage = 500;

/** Whether a filter asks for more than the log's own search can do. */
export function needsScan({ source, body }: ScanFilter): boolean {
  return source !== undefined || body !== undefined;
}

/** A page of the events that match, found by reading those that the log's own filters leave. */
export function scanEvents(events: EventLog, id: string, query: EventQuery, filter: ScanFilter) {
  const found: string[] = [];
  const wanted = pageOffset(query.pageId) + query.limit + 1;
  for (const json of matching(events, id, query, filter)) if (found.push(json) >= wanted) break;
  return toPage(found.slice(pageOffset(query.pageId)), query);
}

/** The number of events that match. */
export function countScanned(events: EventLog, id: string, query: Omit<EventQuery, "limit">, filter: ScanFilter): number {
  let count = 0;
  for (const _ of matching(events, id, query, filter)) count++;
  return count;
}

function* matching(events: EventLog, id: string, query: Omit<EventQuery, "limit">, filter: ScanFilter): Generator<string> {
  let pageId: string | null = "0";
  while (pageId !== null) {
    const page: { items: string[]; nextPageId: string | null } = events.search(id, { ...query, pageId, limit: scanPage });
    for (const json of page.items) if (matches(JSON.parse(json) as Event, filter)) yield json;
    pageId = page.nextPageId;
  }
}

function matches(event: Event, { source, body }: ScanFilter): boolean {
  if (source !== undefined && event.source !== source) return false;
  if (body === undefined) return true;
  return event.kind === "MessageEvent" && contentText(event.llm_message.content).toLowerCase().includes(body.toLowerCase());
}
