import type { LogRecord, NewRecord } from "@sandpiper/agent/loop/log-record";
import type { AppendOptions, EventLog } from "../event-log.ts";
import { draftAppend } from "../sql/append-draft.ts";
import { EventReads } from "../sql/event-reads.ts";
import type { LogListener } from "../sql/log-listeners.ts";
import type { AppendQueue } from "./append-queue.ts";
import { eventQueries } from "./event-queries.ts";
import { LogFeed } from "./log-feed.ts";
import { toStorable } from "./parameters.ts";
import type { PostgresReader } from "./reader.ts";

export interface PostgresEventLogParts {
  reader: PostgresReader;
  queue: AppendQueue;
  /**
   * The log calls this with the last sequence number of each append, before the append's promise
   * resolves.
   */
  onAppend(conversationId: string, seq: number): void;
  /** Milliseconds since the epoch. */
  clock: () => number;
}

/** The log on PostgreSQL. A function of the database assigns the order and the time of records. */
export class PostgresEventLog extends EventReads implements EventLog {
  readonly feed: LogFeed;
  readonly #parts: PostgresEventLogParts;
  /** Conversations that are being created. */
  readonly #creations = new Map<string, Promise<void>>();

  constructor(parts: PostgresEventLogParts) {
    const { reader } = parts;
    const plain = new EventReads(reader, eventQueries);
    const feed = new LogFeed({
      lastSeq: (id) => plain.lastSeq(id),
      read: (id, afterSeq, limit) => plain.read(id, afterSeq, limit),
      async lastSeqs(ids) {
        const sql = "SELECT id, last_seq AS seq FROM conversations WHERE id = ANY ($1)";
        const rows = await reader.query<{ id: string; seq: number }>(sql, [ids]);
        return new Map(rows.map(({ id, seq }) => [id, seq]));
      },
    });
    super(reader, eventQueries, (id) => feed.whenReady(id));
    this.feed = feed;
    this.#parts = parts;
  }

  /**
   * Makes appends to a conversation wait for the end of its creation. Returns the promise of the
   * creation.
   */
  async following(conversationId: string, creation: Promise<void>): Promise<void> {
    this.#creations.set(conversationId, creation);
    try {
      await creation;
    } finally {
      this.#creations.delete(conversationId);
    }
  }

  async append(
    conversationId: string,
    records: readonly NewRecord[],
    { navigate, owner, ...options }: AppendOptions = {},
  ): Promise<LogRecord[]> {
    const { clock, queue, onAppend } = this.#parts;
    // The database keeps no order between connections.
    const creation = this.#creations.get(conversationId);
    if (creation) await creation.catch(() => {});
    const storable = records.map(toStorableRecord);
    const { draft, toRecords } = draftAppend(conversationId, storable, options, clock() * 1000);
    const target =
      navigate === undefined || navigate === null
        ? navigate
        : await this.findTarget(conversationId, navigate);
    const callTools = (options.calls ?? []).map(({ digests }) => digests?.tools ?? null);
    const answer = await queue.append({ ...draft, callTools, navigate: target, owner });
    const stored =
      answer.failure === "stored"
        ? await this.read(conversationId, answer.seq - 1, records.length)
        : toRecords(answer);
    onAppend(conversationId, stored.at(-1)?.seq ?? 0);
    // A caller that appends continues with the state of its follower, so the follower must have the
    // records.
    if (stored.length > 0) await this.feed.appended(conversationId, stored);
    return stored;
  }

  follow(conversationId: string, listener: LogListener): () => void {
    return this.feed.follow(conversationId, listener);
  }

  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void {
    return this.feed.followAll(listener);
  }
}

function toStorableRecord(record: NewRecord): NewRecord {
  const { id } = record.event;
  return id?.includes("\0") ? { ...record, event: { ...record.event, id: toStorable(id) } } : record;
}
