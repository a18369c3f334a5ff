import type { LogRecord, NewRecord, ParsedRecord } from "@sandpiper/agent/loop/log-record";
import type { ModelCall } from "@sandpiper/models/recording/model-call";
import type { Span } from "./branch.ts";

/** Append-only, durable log, ordered per conversation. The stored `json` is the wire text. */
export interface EventLog {
  /**
   * Appends records in one transaction, which also updates the conversation's summary, and resolves
   * when they survive a power loss. Assigns sequence numbers (1, 2, …) and strictly increasing
   * timestamps, then calls followers in order. Concurrent appends share one sync. Stores nothing if
   * it throws ConversationNotFound, StorageFull, StorageQuotaReached, MessageDelivered or
   * DatabaseUnavailable.
   */
  append(
    conversationId: string,
    records: readonly NewRecord[],
    options?: AppendOptions,
  ): Promise<LogRecord[]>;
  /**
   * Records after a sequence number, unlisted ones included; at most `maxLength` characters in
   * total.
   */
  read(conversationId: string, afterSeq: number, limit: number, maxLength?: number): Promise<LogRecord[]>;
  /** Like `read` without the JSON texts, which saves time and memory when a whole log is folded. */
  readParsed(conversationId: string, afterSeq: number, limit: number): Promise<ParsedRecord[]>;
  /** Listed events only; a page of long events has fewer than `limit`. */
  search(conversationId: string, query: EventQuery): Promise<{ items: string[]; nextPageId: string | null }>;
  /**
   * Listed events by their number, from 1 without gaps; without `first`, the newest. A window of
   * long events has fewer than `limit`.
   */
  window(conversationId: string, query: WindowQuery): Promise<LogWindow>;
  /** Like `search`, as JSON of a page; cached until the conversation changes. */
  pageJson(conversationId: string, query: EventQuery): Promise<string>;
  count(conversationId: string, filter?: EventFilter): Promise<number>;
  /** JSON texts in the order of `ids`; null for an unknown id. */
  batch(conversationId: string, ids: readonly string[]): Promise<(string | null)[]>;
  /** The active branch: all events if the conversation was never navigated. */
  branch(conversationId: string): Promise<ActiveBranch>;
  /** The path to an event, inclusive; empty for null. Undefined when the event is not listed. */
  pathTo(conversationId: string, eventId: string | null): Promise<EventPath | undefined>;
  /** Highest sequence number, 0 when empty. */
  lastSeq(conversationId: string): Promise<number>;
  /** Calls the listener for every record that becomes durable from now on; returns unsubscribe. */
  follow(conversationId: string, listener: (records: readonly LogRecord[]) => void): () => void;
  /** Follows the records that this process appends to any conversation. */
  followAll(listener: (conversationId: string, records: readonly LogRecord[]) => void): () => void;
}

export interface AppendOptions {
  /**
   * Id of the pending message to remove in the same transaction. Throws MessageDelivered if gone.
   */
  delivers?: string | undefined;
  /** Model calls to store in the same transaction. */
  calls?: readonly ModelCall[];
  /**
   * Moves HEAD to this event first; null: to the beginning. Throws EventNotFound,
   * ConversationRunning.
   */
  navigate?: string | null;
  /**
   * Owner and epoch of an append that a run makes; the append throws OwnershipLost when they do not
   * own the conversation. A store of one process ignores this field.
   */
  owner?: RunOwner | undefined;
}

/** The node that runs a conversation, and its epoch. */
export interface RunOwner {
  /** Incarnation of the node. */
  node: string;
  /** Epoch of the ownership; it grows with each new owner. */
  epoch: number;
}

export interface WindowQuery {
  /** Number of the first event. */
  first?: number | undefined;
  limit: number;
}

/** A part of the listed events of a log. */
export interface LogWindow {
  items: { number: number; seq: number; json: string }[];
  /** Number of all listed events. */
  events: number;
  /** Highest sequence number of the log. */
  lastSeq: number;
}

/** The active branch of a log. */
export interface ActiveBranch {
  spans: Span[];
  /** Number of listed events; later events are on the branch until HEAD moves. */
  listed: number;
}

/** The path from the beginning of a log to an event. */
export interface EventPath {
  spans: Span[];
  /** Index of the event among the listed ones, from 1; 0: the beginning. */
  index: number;
  /** First time that HEAD moved after the event was written, microseconds since the epoch. */
  leftAt: number | undefined;
}

export interface EventFilter {
  kind?: string;
  /** Event times as text (wire `parseEventTime`). */
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
