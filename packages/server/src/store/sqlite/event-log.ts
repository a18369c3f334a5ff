import type { LogRecord, NewRecord } from "@sandpiper/agent/loop/log-record";
import type { AppendOptions, EventLog } from "../event-log.ts";
import { draftAppend } from "../sql/append-draft.ts";
import { EventReads } from "../sql/event-reads.ts";
import { type LogListener, LogListeners } from "../sql/log-listeners.ts";
import { eventQueries } from "./event-queries.ts";
import type { Reader } from "./reader.ts";
import type { WriterClient } from "./writer-client.ts";

export interface SqliteEventLogParts {
  reader: Reader;
  writer: WriterClient;
  /** Milliseconds since the epoch. */
  clock: () => number;
}

/**
 * The log on SQLite: the writer thread assigns order and time; this side notifies the followers.
 */
export class SqliteEventLog extends EventReads implements EventLog {
  readonly #writer: WriterClient;
  readonly #clock: () => number;
  readonly #listeners = new LogListeners();

  constructor({ reader, writer, clock }: SqliteEventLogParts) {
    super(reader, eventQueries);
    this.#writer = writer;
    this.#clock = clock;
  }

  async append(
    conversationId: string,
    records: readonly NewRecord[],
    { navigate, ...options }: AppendOptions = {},
  ): Promise<LogRecord[]> {
    const { draft, toRecords } = draftAppend(conversationId, records, options, this.#clock() * 1000);
    const target =
      navigate === undefined || navigate === null
        ? navigate
        : await this.findTarget(conversationId, navigate);
    const stamps = await this.#writer.append({
      ...draft,
      ...(target !== undefined && { navigate: target }),
    });
    const stored = toRecords(stamps);
    if (stored.length > 0) {
      this.#listeners.tellFollowers(conversationId, stored);
      this.#listeners.tellObservers(conversationId, stored);
    }
    return stored;
  }

  follow(conversationId: string, listener: LogListener): () => void {
    return this.#listeners.follow(conversationId, listener);
  }

  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void {
    return this.#listeners.followAll(listener);
  }
}
