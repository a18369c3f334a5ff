import type { LogRecord, ParsedRecord } from "@sandpiper/agent/loop/log-record";
import { PlatformError } from "@sandpiper/core/errors";
import { maxPageLength, pageOffset } from "@sandpiper/core/paging";
import type { Event } from "@sandpiper/wire";
import { LRUCache } from "lru-cache";
import { type Navigation, spansTo } from "../branch.ts";
import type {
  ActiveBranch,
  EventFilter,
  EventLog,
  EventPath,
  EventQuery,
  LogWindow,
  WindowQuery,
} from "../event-log.ts";
import type { Awaitable, SqlReader } from "./engine.ts";
import type { EventQueries } from "./event-queries.ts";
import { maxSeq } from "./max-seq.ts";

export interface LogRow {
  number: number;
  last_seq: number;
  last_listed: number;
  last_micros: number;
}

interface StoredNavigation extends Navigation {
  micros: number;
}

interface EventRow {
  seq: number;
  listed_index: number | null;
  json: string;
}

/** The part of a log that reads. */
export class EventReads implements Omit<EventLog, "append" | "follow" | "followAll"> {
  readonly #reader: SqlReader;
  readonly #queries: EventQueries;
  readonly #whenReady: (conversationId: string) => Awaitable<void>;
  /** Cached pages, each with the unique time of the last record of its conversation. */
  readonly #pages = new LRUCache<string, { json: string; micros: number }>({
    max: 100,
    maxSize: 8 * 2 ** 20,
  });

  /** Reads of a conversation wait for the promise of `whenReady` first. */
  constructor(
    reader: SqlReader,
    queries: EventQueries,
    whenReady: (conversationId: string) => Awaitable<void> = () => {},
  ) {
    this.#reader = reader;
    this.#queries = queries;
    this.#whenReady = whenReady;
  }

  async read(
    conversationId: string,
    afterSeq: number,
    limit: number,
    maxLength = maxPageLength,
  ): Promise<LogRecord[]> {
    const log = await this.#log(conversationId);
    return log ? this.#readRecords(log, afterSeq, limit, maxLength) : [];
  }

  async #readRecords(
    { number }: LogRow,
    afterSeq: number,
    limit: number,
    maxLength: number,
  ): Promise<LogRecord[]> {
    const { items } = await this.#reader.page<"json", EventRow>(
      { sql: this.#queries.read, parameters: [number, firstAfter(afterSeq), limit] },
      "json",
      { limit },
      maxLength,
    );
    return items.map((row) => ({
      seq: row.seq,
      listed: row.listed_index !== null,
      event: JSON.parse(row.json) as Event,
      json: row.json,
    }));
  }

  async readParsed(conversationId: string, afterSeq: number, limit: number): Promise<ParsedRecord[]> {
    const log = await this.#log(conversationId);
    if (!log) return [];
    const span = [log.number, firstAfter(afterSeq), limit] as const;
    const row = await this.#reader.get<{ length: number | null }>(this.#queries.readLength, ...span);
    if ((row?.length ?? 0) > maxPageLength) return this.#readRecords(log, afterSeq, limit, maxPageLength);
    const found = await this.#reader.get<{ items: string | null }>(this.#queries.readParsed, ...span);
    const rows = JSON.parse(`[${found?.items ?? ""}]`) as [seq: number, listedIndex: number, event: Event][];
    return rows.map(([seq, listedIndex, event]) => ({ seq, listed: listedIndex > 0, event }));
  }

  async search(
    conversationId: string,
    query: EventQuery,
  ): Promise<{ items: string[]; nextPageId: string | null }> {
    const log = await this.#log(conversationId);
    if (!log) return { items: [], nextPageId: null };
    const { first, last } = await this.#range(log, query);
    const offset = pageOffset(query.pageId);
    const limit = query.limit + 1;
    const { kind, descending = false } = query;
    const queries = this.#queries;
    const statement =
      kind !== undefined
        ? {
            sql: descending ? queries.kindDescending : queries.kindAscending,
            parameters: [log.number, kind, first, last, limit, offset],
          }
        : descending
          ? { sql: queries.descending, parameters: [log.number, first, last - offset, limit] }
          : { sql: queries.ascending, parameters: [log.number, first + offset, last, limit] };
    const { items, nextPageId } = await this.#reader.page<"json", { json: string }>(statement, "json", query);
    return { items: items.map(({ json }) => json), nextPageId };
  }

  async window(conversationId: string, { first, limit }: WindowQuery): Promise<LogWindow> {
    const log = await this.#log(conversationId);
    if (!log) return { items: [], events: 0, lastSeq: 0 };
    const { number, last_listed: last, last_seq: lastSeq } = log;
    const from = first ?? Math.max(1, last - limit + 1);
    const { items } = await this.#reader.page<"json", EventRow>(
      { sql: this.#queries.ascending, parameters: [number, from, last, limit] },
      "json",
      { limit },
    );
    return {
      items: items.map(({ seq, listed_index, json }) => ({ number: listed_index!, seq, json })),
      events: last,
      lastSeq,
    };
  }

  async pageJson(conversationId: string, query: EventQuery): Promise<string> {
    const log = await this.#log(conversationId);
    if (!log) return pageText("", null);
    const question = JSON.stringify([conversationId, query]);
    const known = this.#pages.get(question);
    if (known?.micros === log.last_micros) return known.json;
    const { items, nextPageId } = await this.#page(conversationId, log, query);
    const json = pageText(items, nextPageId);
    this.#pages.set(question, { json, micros: log.last_micros }, { size: json.length });
    return json;
  }

  async #page(
    conversationId: string,
    log: LogRow,
    query: EventQuery,
  ): Promise<{ items: string; nextPageId: string | null }> {
    const { descending = false, kind, limit } = query;
    const { first, last } = await this.#range(log, query);
    const offset = pageOffset(query.pageId);
    const [from, to] = descending ? [first, last - offset] : [first + offset, last];
    const { ascendingLength, descendingLength, ascendingPage, descendingPage } = this.#queries;
    const isLong = async () => {
      const lengths = descending ? descendingLength : ascendingLength;
      const row = await this.#reader.get<{ length: number | null }>(lengths, log.number, from, to, limit);
      return (row?.length ?? 0) > maxPageLength;
    };
    if (kind !== undefined || (await isLong())) {
      const { items, nextPageId } = await this.search(conversationId, query);
      return { items: items.join(), nextPageId };
    }
    const sql = descending ? descendingPage : ascendingPage;
    const row = await this.#reader.get<{ items: string | null }>(sql, log.number, from, to, limit);
    return { items: row?.items ?? "", nextPageId: to - from + 1 > limit ? String(offset + limit) : null };
  }

  async count(conversationId: string, filter: EventFilter = {}): Promise<number> {
    const log = await this.#log(conversationId);
    if (!log) return 0;
    const { first, last } = await this.#range(log, filter);
    if (filter.kind === undefined) return Math.max(0, last - first + 1);
    const span = [log.number, filter.kind, first, last] as const;
    return (await this.#reader.get<{ count: number }>(this.#queries.kindCount, ...span))!.count;
  }

  async batch(conversationId: string, ids: readonly string[]): Promise<(string | null)[]> {
    const log = await this.#log(conversationId);
    if (!log) return ids.map(() => null);
    const find = async (id: string) =>
      (await this.#reader.get<{ json: string }>(this.#queries.byId, log.number, id))?.json ?? null;
    return Promise.all(ids.map(find));
  }

  async branch(conversationId: string): Promise<ActiveBranch> {
    const { listed, navigations } = await this.#navigations(conversationId);
    const last = navigations.at(-1);
    return { spans: spansTo(last?.after === listed ? last.target : listed, navigations), listed };
  }

  async pathTo(conversationId: string, eventId: string | null): Promise<EventPath | undefined> {
    const { number, navigations } = await this.#navigations(conversationId);
    const found =
      eventId === null
        ? { listed_index: 0 }
        : await this.#reader.get<{ listed_index: number }>(this.#queries.indexOf, number, eventId);
    const index = found?.listed_index;
    if (index === undefined) return undefined;
    const leftAt = navigations.find(({ after }) => after >= index)?.micros;
    return { spans: spansTo(index, navigations), index, leftAt };
  }

  async lastSeq(conversationId: string): Promise<number> {
    return (await this.#log(conversationId))?.last_seq ?? 0;
  }

  /** Finds the event to which HEAD moves, with its listed index. Throws EventNotFound. */
  protected async findTarget(
    conversationId: string,
    eventId: string,
  ): Promise<{ eventId: string; index: number }> {
    const way = await this.pathTo(conversationId, eventId);
    if (!way) throw new PlatformError("EventUnknown");
    return { eventId, index: way.index };
  }

  async #navigations(
    conversationId: string,
  ): Promise<{ number: number; listed: number; navigations: StoredNavigation[] }> {
    await this.#whenReady(conversationId);
    const rows = await this.#reader.all<
      { number: number; last_listed: number } & (StoredNavigation | { after: null })
    >(this.#queries.navigations, conversationId);
    const navigations = rows.filter((row) => row.after !== null);
    return { number: rows[0]?.number ?? 0, listed: rows[0]?.last_listed ?? 0, navigations };
  }

  async #log(conversationId: string): Promise<LogRow | undefined> {
    await this.#whenReady(conversationId);
    return this.#reader.get<LogRow>(this.#queries.log, conversationId);
  }

  /** Returns the first and the last listed index that match the filter's span and times. */
  async #range(
    log: LogRow,
    { span, ...filter }: Pick<EventQuery, "span" | keyof EventFilter>,
  ): Promise<{ first: number; last: number }> {
    const first = filter.timestampGte === undefined ? 1 : await this.#firstSince(log, filter.timestampGte);
    const last =
      filter.timestampLt === undefined
        ? log.last_listed
        : (await this.#firstSince(log, filter.timestampLt)) - 1;
    return { first: Math.max(first, span?.first ?? 1), last: Math.min(last, span?.last ?? last) };
  }

  /**
   * Finds the first listed index at or after a time by binary search, because a database index
   * would make appends slower.
   */
  async #firstSince({ number, last_listed }: LogRow, timestamp: string): Promise<number> {
    let low = 1;
    let high = last_listed + 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const row = await this.#reader.get<{ timestamp: string }>(this.#queries.timeOf, number, middle);
      if (row === undefined || row.timestamp >= timestamp) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

function firstAfter(seq: number): number {
  return Math.min(Math.max(seq, 0), maxSeq) + 1;
}

function pageText(items: string, nextPageId: string | null): string {
  return `{"items":[${items}],"next_page_id":${JSON.stringify(nextPageId)}}`;
}
