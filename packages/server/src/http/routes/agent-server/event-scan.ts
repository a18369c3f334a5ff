import { boundedPage, pageOffset } from "@sandpiper/core/paging";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { contentText, type Event } from "@sandpiper/wire";
import type { EventLog, EventQuery } from "../../../store/event-log.ts";

/** Filters without an index in the log (agent-server.md section 5). */
export interface ScanFilter {
  source?: string | undefined;
  /** Case-insensitive, in MessageEvents only. */
  body?: string | undefined;
}

/** Events that are read between pauses for other work. */
const scanPage = 100;

/** The scan's owner, and whether the client still waits. */
export interface ScanContext {
  userId: string;
  longReads: KeyedMutex;
  isWanted: () => boolean;
}

/** Whether the log's own search cannot apply a filter. */
export function needsScan({ source, body }: ScanFilter): boolean {
  return source !== undefined || body !== undefined;
}

/** A page of the matching events, found by reading all that the log's own filters select. */
export async function scanEvents(
  events: EventLog,
  id: string,
  query: EventQuery,
  filter: ScanFilter,
  who: ScanContext,
) {
  const found: string[] = [];
  let before = pageOffset(query.pageId);
  await who.longReads.run(`events of ${who.userId}`, async () => {
    for await (const json of scanMatching(events, id, query, filter, who)) {
      if (before-- > 0) continue;
      found.push(json);
      if (found.length > query.limit) break;
    }
  });
  const { items, nextPageId } = boundedPage(found, (json) => json.length, query);
  return { items, nextPageId };
}

/** Counts the matching events. */
export async function countScanned(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  filter: ScanFilter,
  who: ScanContext,
): Promise<number> {
  let count = 0;
  await who.longReads.run(`events of ${who.userId}`, async () => {
    for await (const _ of scanMatching(events, id, query, filter, who)) count++;
  });
  return count;
}

async function* scanMatching(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  filter: ScanFilter,
  who: ScanContext,
): AsyncGenerator<string> {
  for await (const json of scan(events, id, query, who))
    if (matches(JSON.parse(json) as Event, filter)) yield json;
}

/** Yields the events of a search, pausing between pages, while the client waits. */
export async function* scan(
  events: EventLog,
  id: string,
  query: Omit<EventQuery, "limit">,
  { isWanted }: Pick<ScanContext, "isWanted">,
): AsyncGenerator<string> {
  for (let pageId: string | null = "0"; pageId !== null && isWanted(); ) {
    const page: { items: string[]; nextPageId: string | null } = await events.search(id, {
      ...query,
      pageId,
      limit: scanPage,
    });
    yield* page.items;
    pageId = page.nextPageId;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export function matches(event: Event, { source, body }: ScanFilter): boolean {
  if (source !== undefined && event.source !== source) return false;
  if (body === undefined) return true;
  return (
    event.kind === "MessageEvent" &&
    contentText(event.llm_message.content).toLowerCase().includes(body.toLowerCase())
  );
}
