import type { LogRecord, NewRecord, ParsedRecord } from "@sandpiper/agent/loop/log-record";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { boundedPage, maxPageLength, pageOffset } from "@sandpiper/core/paging";
import { type Event, newId } from "@sandpiper/wire";
import { eventTime } from "@sandpiper/wire/common/time";
import { LRUCache } from "lru-cache";
import { type Navigation, spansTo } from "../branch.ts";
import { omitNulls, serializeEvent } from "../event-json.ts";
import type {
  ActiveBranch,
  AppendOptions,
  EventFilter,
  EventLog,
  EventPath,
  EventQuery,
} from "../event-log.ts";
import { summarizeEvents } from "../summary.ts";
import type { StoreContext } from "./context.ts";
import { eventKey, maxSeq } from "./event-key.ts";

/** Kinds that record that a user stops a run, and all that record how one ends. */
const stops: ReadonlySet<string> = new Set(["PauseEvent", "InterruptEvent"]);
const endings = stops.union(new Set(["ConversationErrorEvent"]));

type Listener = (records: readonly LogRecord[]) => void;

/** Statements of the log; a test checks that their plans are index searches without sorting. */
export const eventQueries = {
  log: "SELECT number, last_seq, last_listed, last_micros FROM conversations WHERE id = ?",
  read: "SELECT key, listed_index, json FROM events WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?",
  readLength: `SELECT sum(length) AS length FROM
    (SELECT octet_length(json) AS length FROM events WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?)`,
  // One text instead of many rows is faster to read and parse.
  readParsed: `SELECT group_concat('[' || key || ',' || coalesce(listed_index, 0) || ',' || json || ']') AS items FROM
    (SELECT key, listed_index, json FROM events WHERE key BETWEEN ? AND ? ORDER BY key LIMIT ?)`,
  byId: "SELECT json FROM events WHERE conversation = ? AND id = ? AND listed_index IS NOT NULL",
  indexOf: "SELECT listed_index FROM events WHERE conversation = ? AND id = ? AND listed_index IS NOT NULL",
  navigations: `SELECT c.number, c.last_listed, n.after, n.target, n.micros FROM conversations c
    LEFT JOIN navigations n ON n.conversation = c.number WHERE c.id = ? ORDER BY n.after`,
  timeOf: "SELECT timestamp FROM events WHERE conversation = ? AND listed_index = ?",
  ascending:
    "SELECT json FROM events WHERE conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index LIMIT ?",
  descending:
    "SELECT json FROM events WHERE conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index DESC LIMIT ?",
  // SQLite joins the texts: one value to read instead of a hundred.
  ascendingPage: `SELECT group_concat(json) AS items FROM
    (SELECT json FROM events WHERE conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index LIMIT ?)`,
  descendingPage: `SELECT group_concat(json) AS items FROM
    (SELECT json FROM events WHERE conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index DESC LIMIT ?)`,
  // Lengths are stored before the texts, which are not read.
  ascendingLength: `SELECT sum(length) AS length FROM
    (SELECT octet_length(json) AS length FROM events WHERE conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index LIMIT ?)`,
  descendingLength: `SELECT sum(length) AS length FROM
    (SELECT octet_length(json) AS length FROM events WHERE conversation = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index DESC LIMIT ?)`,
  kindAscending:
    "SELECT json FROM events WHERE conversation = ? AND kind = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index LIMIT ? OFFSET ?",
  kindDescending:
    "SELECT json FROM events WHERE conversation = ? AND kind = ? AND listed_index BETWEEN ? AND ? ORDER BY listed_index DESC LIMIT ? OFFSET ?",
  kindCount:
    "SELECT count(*) AS count FROM events WHERE conversation = ? AND kind = ? AND listed_index BETWEEN ? AND ?",
} as const;

interface Log {
  number: number;
  last_seq: number;
  last_listed: number;
  last_micros: number;
}

interface Found {
  listed_index: number;
}

interface StoredNavigation extends Navigation {
  micros: number;
}

/**
 * The log on SQLite: the writer thread assigns order and time; this side notifies the followers.
 */
export class SqliteEventLog implements EventLog {
  readonly #context: StoreContext;
  /** Pages with the unique time of the last record of their conversation. */
  readonly #pages = new LRUCache<string, { json: string; micros: number }>({
    max: 100,
    maxSize: 8 * 2 ** 20,
  });
  readonly #followers = new Map<string, Set<Listener>>();
  readonly #observers = new Set<(conversationId: string, records: readonly LogRecord[]) => void>();

  constructor(context: StoreContext) {
    this.#context = context;
  }

  async append(
    conversationId: string,
    records: readonly NewRecord[],
    options: AppendOptions = {},
  ): Promise<LogRecord[]> {
    const drafts = records.map(({ listed, event }) => {
      const { id = newId(), ...rest } = omitNulls(event);
      return { id, kind: rest.kind, listed, rest, body: JSON.stringify(rest) };
    });
    const change = summarizeEvents(records.map(({ event }) => event));
    const { navigate } = options;
    const stamps = await this.#context.writer.append({
      conversationId,
      nowMicros: this.#context.clock() * 1000,
      events: drafts.map(({ id, kind, listed, body }) => ({ id, kind, listed, body })),
      executionStatus: change.executionStatus ?? null,
      resetsUncleanEnds: change.resetsUncleanEnds === true,
      metrics: change.metrics ? JSON.stringify(change.metrics) : null,
      stats: change.stats ? JSON.stringify(change.stats) : null,
      cost: change.cost ?? null,
      delivers: options.delivers ?? null,
      calls: (options.calls ?? []).map((call) => JSON.stringify(call)),
      isEnding: records.some(({ event }) => endings.has(event.kind)),
      usesReserve: records.some(({ event }) => stops.has(event.kind)),
      ...(navigate !== undefined && {
        navigate: navigate === null ? null : this.#findTarget(conversationId, navigate),
      }),
    });
    let { head } = stamps;
    const stored = drafts.map(({ id, listed, rest, body }, index): LogRecord => {
      const timestamp = eventTime(stamps.micros + index);
      const parent = listed && head !== null ? head : "";
      if (listed && head !== null) head = id;
      return {
        seq: stamps.seq + index,
        listed,
        event: { id, timestamp, ...(parent !== "" && { parent_id: parent }), ...rest } as Event,
        json: serializeEvent(id, timestamp, body, parent),
      };
    });
    if (stored.length > 0) this.#notify(conversationId, stored);
    return stored;
  }

  async read(
    conversationId: string,
    afterSeq: number,
    limit: number,
    maxLength = maxPageLength,
  ): Promise<LogRecord[]> {
    const log = this.#log(conversationId);
    if (!log) return [];
    const from = Math.min(Math.max(afterSeq, 0), maxSeq) + 1;
    const rows = this.#context.reader.iterate<{ key: number; listed_index: number | null; json: string }>(
      eventQueries.read,
      eventKey(log.number, from),
      eventKey(log.number, maxSeq),
      limit,
    );
    return boundedPage(rows, ({ json }) => json.length, { limit }, maxLength).items.map((row) => ({
      seq: row.key - eventKey(log.number, 0),
      listed: row.listed_index !== null,
      event: JSON.parse(row.json) as Event,
      json: row.json,
    }));
  }

  async readParsed(conversationId: string, afterSeq: number, limit: number): Promise<ParsedRecord[]> {
    const log = this.#log(conversationId);
    if (!log) return [];
    const from = Math.min(Math.max(afterSeq, 0), maxSeq) + 1;
    const span = [eventKey(log.number, from), eventKey(log.number, maxSeq), limit];
    const { reader } = this.#context;
    const { length } = reader.get<{ length: number | null }>(eventQueries.readLength, ...span)!;
    if (length !== null && length > maxPageLength) return this.read(conversationId, afterSeq, limit);
    const { items } = reader.get<{ items: string | null }>(eventQueries.readParsed, ...span)!;
    const rows = JSON.parse(`[${items ?? ""}]`) as [key: number, listedIndex: number, event: Event][];
    return rows.map(([key, listedIndex, event]) => ({
      seq: key - eventKey(log.number, 0),
      listed: listedIndex > 0,
      event,
    }));
  }

  async search(
    conversationId: string,
    query: EventQuery,
  ): Promise<{ items: string[]; nextPageId: string | null }> {
    const log = this.#log(conversationId);
    if (!log) return { items: [], nextPageId: null };
    const { reader } = this.#context;
    const { first, last } = this.#range(log, query);
    const offset = pageOffset(query.pageId);
    const limit = query.limit + 1;
    let rows: Iterable<{ json: string }>;
    if (query.kind !== undefined) {
      const sql = query.descending ? eventQueries.kindDescending : eventQueries.kindAscending;
      rows = reader.iterate(sql, log.number, query.kind, first, last, limit, offset);
    } else if (query.descending) {
      rows = reader.iterate(eventQueries.descending, log.number, first, last - offset, limit);
    } else {
      rows = reader.iterate(eventQueries.ascending, log.number, first + offset, last, limit);
    }
    const { items, nextPageId } = boundedPage(rows, ({ json }) => json.length, query);
    return { items: items.map(({ json }) => json), nextPageId };
  }

  async pageJson(conversationId: string, query: EventQuery): Promise<string> {
    const log = this.#log(conversationId);
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
    log: Log,
    query: EventQuery,
  ): Promise<{ items: string; nextPageId: string | null }> {
    if (query.kind !== undefined) {
      const { items, nextPageId } = await this.search(conversationId, query);
      return { items: items.join(), nextPageId };
    }
    const { first, last } = this.#range(log, query);
    const { descending = false, limit } = query;
    const offset = pageOffset(query.pageId);
    const [from, to] = descending ? [first, last - offset] : [first + offset, last];
    const lengths = descending ? eventQueries.descendingLength : eventQueries.ascendingLength;
    const isLong = () =>
      (this.#context.reader.get<{ length: number | null }>(lengths, log.number, from, to, limit)?.length ??
        0) > maxPageLength;
    if (query.kind !== undefined || isLong()) {
      const { items, nextPageId } = await this.search(conversationId, query);
      return { items: items.join(), nextPageId };
    }
    const sql = descending ? eventQueries.descendingPage : eventQueries.ascendingPage;
    const row = this.#context.reader.get<{ items: string | null }>(sql, log.number, from, to, limit);
    return { items: row?.items ?? "", nextPageId: to - from + 1 > limit ? String(offset + limit) : null };
  }

  async count(conversationId: string, filter: EventFilter = {}): Promise<number> {
    const log = this.#log(conversationId);
    if (!log) return 0;
    const { first, last } = this.#range(log, filter);
    if (filter.kind === undefined) return Math.max(0, last - first + 1);
    return this.#context.reader.get<{ count: number }>(
      eventQueries.kindCount,
      log.number,
      filter.kind,
      first,
      last,
    )!.count;
  }

  async batch(conversationId: string, ids: readonly string[]): Promise<(string | null)[]> {
    const log = this.#log(conversationId);
    return ids.map((id) => {
      const row = log && this.#context.reader.get<{ json: string }>(eventQueries.byId, log.number, id);
      return row?.json ?? null;
    });
  }

  async branch(conversationId: string): Promise<ActiveBranch> {
    const { listed, navigations } = this.#navigations(conversationId);
    const last = navigations.at(-1);
    return { spans: spansTo(last?.after === listed ? last.target : listed, navigations), listed };
  }

  async pathTo(conversationId: string, eventId: string | null): Promise<EventPath | undefined> {
    return this.#path(conversationId, eventId);
  }

  #path(conversationId: string, eventId: string | null): EventPath | undefined {
    const { number, navigations } = this.#navigations(conversationId);
    const found =
      eventId === null
        ? { listed_index: 0 }
        : this.#context.reader.get<Found>(eventQueries.indexOf, number, eventId);
    const index = found?.listed_index;
    if (index === undefined) return undefined;
    const leftAt = navigations.find(({ after }) => after >= index)?.micros;
    return { spans: spansTo(index, navigations), index, leftAt };
  }

  async lastSeq(conversationId: string): Promise<number> {
    return this.#log(conversationId)?.last_seq ?? 0;
  }

  follow(conversationId: string, listener: Listener): () => void {
    const followers = this.#followers.get(conversationId) ?? new Set();
    const own: Listener = (records) => listener(records);
    followers.add(own);
    this.#followers.set(conversationId, followers);
    return () => {
      followers.delete(own);
      if (followers.size === 0 && this.#followers.get(conversationId) === followers)
        this.#followers.delete(conversationId);
    };
  }

  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void {
    const own: typeof listener = (conversationId, records) => listener(conversationId, records);
    this.#observers.add(own);
    return () => this.#observers.delete(own);
  }

  /** Throws EventNotFound. */
  #findTarget(conversationId: string, eventId: string): { eventId: string; index: number } {
    const way = this.#path(conversationId, eventId);
    if (!way) throw new PlatformError("EventUnknown");
    return { eventId, index: way.index };
  }

  #navigations(conversationId: string): { number: number; listed: number; navigations: StoredNavigation[] } {
    const rows = this.#context.reader.all<
      { number: number; last_listed: number } & (StoredNavigation | { after: null })
    >(eventQueries.navigations, conversationId);
    const navigations = rows.filter((row) => row.after !== null);
    return { number: rows[0]?.number ?? 0, listed: rows[0]?.last_listed ?? 0, navigations };
  }

  #log(conversationId: string): Log | undefined {
    return this.#context.reader.get<Log>(eventQueries.log, conversationId);
  }

  /** Inclusive listed indexes of the filter's span and times. */
  #range(
    log: Log,
    { span, ...filter }: Pick<EventQuery, "span" | keyof EventFilter>,
  ): { first: number; last: number } {
    const firstSince = (timestamp: string) => this.#firstSince(log, timestamp);
    const first = filter.timestampGte === undefined ? 1 : firstSince(filter.timestampGte);
    const last = filter.timestampLt === undefined ? log.last_listed : firstSince(filter.timestampLt) - 1;
    return { first: Math.max(first, span?.first ?? 1), last: Math.min(last, span?.last ?? last) };
  }

  /**
   * The first listed index at or after a time, by binary search: a database index would slow
   * appends.
   */
  #firstSince({ number, last_listed }: Log, timestamp: string): number {
    let low = 1;
    let high = last_listed + 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      const row = this.#context.reader.get<{ timestamp: string }>(eventQueries.timeOf, number, middle);
      if (row === undefined || row.timestamp >= timestamp) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #notify(conversationId: string, records: readonly LogRecord[]): void {
    const followers = this.#followers.get(conversationId);
    for (const listener of followers ? [...followers] : []) {
      if (followers?.has(listener)) callListener(() => listener(records));
    }
    for (const observer of this.#observers) callListener(() => observer(conversationId, records));
  }
}

function pageText(items: string, nextPageId: string | null): string {
  return `{"items":[${items}],"next_page_id":${JSON.stringify(nextPageId)}}`;
}

function callListener(call: () => void): void {
  try {
    call();
  } catch (error) {
    process.emitWarning(`A follower of the log has failed: ${errorText(error)}`);
  }
}
