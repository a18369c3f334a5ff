import { boundedPage, pageOffset } from "@sandpiper/core/paging";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { contentText, type Event } from "@sandpiper/wire";
import type { EventLog, EventQuery } from "../../../store/event-log.ts";

/** What the log has no index for (agent-server.md section 5): who an event is from, and a text inside of messages. */
export interface ScanFilter {
  source?: string | undefined;
  /** Matched without regard to case, in MessageEvents only. */
  body?: string | undefined;
}

/** Events that are read before others get their turn. */
const scanPage = 100;

/** Who scans, and whether the answer still has a reader. */
export interface Scanning {
  userId: string;
  longReads: KeyedMutex;
  isWanted: () => boolean;
}

/** Whether a filter asks for more than the log's own search can do. */
export function needsScan({ source, body }: ScanFilter): boolean {
  return source !== undefined || body !== undefined;
}

/** A page of the events that match, found by reading those that the log's own filters leave. */
export async function scanEvents(
  events: EventLog,
  id: string,
  query: EventQuery,
  filter: ScanFilter,
  who: Scanning,
) {
  const found: string[] = [];
  let before = pageOffset(query.pageId);
  await who.longReads.run(`events of ${who.userId}`, async () => {
    for await (const json of matching(events, id, query, filter, who)) {
      if (before-- > 0) continue;
      found.push(json);
      if (found.length > query.limit) break;
    }
  });
  const { items, nextPageId } = boundedPage(found, (json) => json.length, query);
  return { items, nextPageId };
}

/** The number of events that match. */
export async function countScanned(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  filter: ScanFilter,
  who: Scanning,
): Promise<number> {
  let count = 0;
  await who.longReads.run(`events of ${who.userId}`, async () => {
    for await (const _ of matching(events, id, query, filter, who)) count++;
  });
  return count;
}

async function* matching(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  filter: ScanFilter,
  who: Scanning,
): AsyncGenerator<string> {
  for await (const json of scanned(events, id, query, who))
    if (matches(JSON.parse(json) as Event, filter)) yield json;
}

/** The events that a search finds, read page by page in turns with other work, while somebody wants them. */
export async function* scanned(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  { isWanted }: Pick<Scanning, "isWanted">,
): AsyncGenerator<string> {
  for (let pageId: string | null = "0"; pageId !== null && isWanted(); ) {
    const page: { items: string[]; nextPageId: string | null } = events.search(id, {
      ...query,
      pageId,
      limit: scanPage,
    });
    yield* page.items;
    pageId = page.nextPageId;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** Whether an event is one that is asked for. */
export function matches(event: Event, { source, body }: ScanFilter): boolean {
  if (source !== undefined && event.source !== source) return false;
  if (body === undefined) return true;
  return (
    event.kind === "MessageEvent" &&
    contentText(event.llm_message.content).toLowerCase().includes(body.toLowerCase())
  );
}
