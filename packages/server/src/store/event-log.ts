import type { LogRecord, NewRecord, ParsedRecord } from "@sandpiper/agent/loop/log-record";
import type { ModelCall } from "@sandpiper/models/recording/model-call";
import type { Span } from "./branch.ts";

/**
 * The log of conversations: append-only, durable, one order per conversation.
 * The stored text is the wire text: readers send `json` as it is.
 */
export interface EventLog {
  /**
   * Appends records in one transaction and resolves once they survive a power loss. Gives each its sequence number (1, 2, …)
   * and a strictly increasing timestamp. Concurrent appends share one sync. Followers are told after that, in order.
   * The summary of the conversation (status, metrics, updated_at) changes in the same transaction, see `ConversationSummary`.
   * Throws PlatformError ConversationNotFound, StorageFull when the disk is full, and MessageDelivered; nothing is stored then.
   */
  append(
    conversationId: string,
    records: readonly NewRecord[],
    options?: AppendOptions,
  ): Promise<LogRecord[]>;
  /** Records after a sequence number, in order, unlisted ones included: fewer than `limit` also where they are longer than `maxLength` characters together. */
  read(conversationId: string, afterSeq: number, limit: number, maxLength?: number): LogRecord[];
  /** The same without their texts, for who folds a whole log: it takes less time and memory. */
  readParsed(conversationId: string, afterSeq: number, limit: number): ParsedRecord[];
  /** Listed events only: a page has fewer than `limit` where they are long. */
  search(conversationId: string, query: EventQuery): { items: string[]; nextPageId: string | null };
  /** The same as the JSON of a page; quick while nothing is written to the conversation. */
  pageJson(conversationId: string, query: EventQuery): string;
  count(conversationId: string, filter?: EventFilter): number;
  /** JSON texts by event id, null where there is none; same order and length as `ids`. */
  batch(conversationId: string, ids: readonly string[]): (string | null)[];
  /** The events on the active branch, and which of them leads there: all of them where the conversation was never navigated. */
  branch(conversationId: string): Branch;
  /** The events that lead to one, itself included; null: the beginning, to which none leads. Undefined for an event that is not listed. */
  pathTo(conversationId: string, eventId: string | null): EventPath | undefined;
  /** Highest sequence number, 0 when empty. */
  lastSeq(conversationId: string): number;
  /** Calls back for every record that becomes durable from now on. Gives the function that ends it. */
  follow(conversationId: string, listener: (records: readonly LogRecord[]) => void): () => void;
  /** The same for the records of every conversation. */
  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void;
}

export interface AppendOptions {
  /** Id of the pending message that the records deliver: it is removed in the same transaction. Throws MessageDelivered where it is gone. */
  delivers?: string | undefined;
  /** Calls of models that the records come of, or that leave none: they are stored in the same transaction. */
  calls?: readonly ModelCall[];
  /** Moves HEAD first: the records follow on this event, null: on none. Throws EventNotFound, ConversationRunning. */
  navigate?: string | null;
}

/** The active branch of a log. */
export interface Branch {
  spans: Span[];
  /** Listed events when this was read: later ones are on the branch until it is moved. */
  listed: number;
}

/** How a log comes to an event. */
export interface EventPath {
  spans: Span[];
  /** Of the event among the listed ones, from 1; 0: the beginning. */
  index: number;
  /** When HEAD was first moved after the event had been written; microseconds since the epoch. */
  leftAt: number | undefined;
}

export interface EventFilter {
  kind?: string;
  /** Event time texts, compared as such (wire `parseEventTime`). */
  timestampGte?: string;
  timestampLt?: string;
}

export interface EventQuery extends EventFilter {
  descending?: boolean;
  pageId?: string;
  limit: number;
  /** Only events of this part of the log. */
  span?: Span;
}
