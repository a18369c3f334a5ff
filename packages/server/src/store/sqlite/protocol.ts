import type { StorageQuotas } from "../../config/storage-quotas.ts";
import type { Span } from "../branch.ts";

/**
 * Messages between the main thread and the writer thread. Results come in the order of the jobs.
 */

export type Job = AppendJob | RunJob | CopyJob;

/** Appends events and updates the summary of a conversation. Result: `AppendResult`. */
export interface AppendJob {
  type: "append";
  conversationId: string;
  /**
   * Microseconds since the epoch; the writer uses a later time if the log's last time is not
   * earlier.
   */
  nowMicros: number;
  events: { id: string; kind: string; listed: boolean; body: string }[];
  executionStatus: string | null;
  /** The unclean ends of the conversation count from 0 again. */
  resetsUncleanEnds: boolean;
  /** MetricsSnapshot as JSON. */
  metrics: string | null;
  /** Metrics by usage id as JSON. */
  stats: string | null;
  /** Total cost of the conversation, USD, whose increase counts as spent now; null: unchanged. */
  cost: number | null;
  /** Id of the pending message to remove; nothing is appended if it is gone. */
  delivers: string | null;
  /** Model calls as JSON. */
  calls: string[];
  /** The events record how a run ends, which is possible in a full conversation too. */
  isEnding: boolean;
  /** The events stop a run, for which a full disk has a reserve. */
  usesReserve: boolean;
  /** Parent of the events with its listed index; null: none. Fails while the conversation runs. */
  navigate?: { eventId: string; index: number } | null;
}

/** Copies listed events of another conversation to the end of a log. Result: their number. */
export interface CopyJob {
  type: "copy";
  conversationId: string;
  sourceId: string;
  span: Span;
  nowMicros: number;
}

/** Runs statements in one transaction. Result: the number of rows that the last one changed. */
export interface RunJob {
  type: "run";
  /** The user whose quota must have room for the statements. */
  userId?: string;
  /** The statements delete or stop something, for which a full disk has a reserve. */
  usesReserve?: boolean;
  statements: Statement[];
}

export interface Statement {
  sql: string;
  parameters: readonly SqlValue[];
}

export type SqlValue = null | number | string | Uint8Array;

/** Values of the first event; each further one has the next sequence number and microsecond. */
export interface AppendResult {
  seq: number;
  micros: number;
  /**
   * Parent of the first listed event; empty: none. Null: never navigated, events name no parent.
   */
  head: string | null;
}

export type Result = { ok: true; value: AppendResult | number } | { ok: false; failure: WriteFailure };

export type WriteFailure =
  | { reason: "conversation-not-found" }
  | { reason: "log-full" }
  | { reason: "delivered-already" }
  | { reason: "conversation-running" }
  | { reason: "quota"; quota: keyof StorageQuotas }
  /** `errcode` is SQLite's (extended) result code, 0 for other errors. */
  | { reason: "error"; errcode: number; message: string };

/** SQLite result codes. */
export const sqliteBusy = 5;
export const sqliteFull = 13;
export const sqliteConstraint = 19;
const sqliteIoError = 10;
/** The index of the write-ahead log cannot grow (SQLITE_IOERR_SHMSIZE). */
const sqliteNoRoomForIndex = 4874;
const sqliteNoMemory = 7;

/** An extended result code carries the primary one in its low byte. */
export function primaryCode(errcode: number): number {
  return errcode & 0xff;
}

/** Whether the disk is full, for the database or its side files. */
export function isDiskFullCode(errcode: number): boolean {
  return primaryCode(errcode) === sqliteFull || errcode === sqliteNoRoomForIndex;
}

/** Whether an error ends the whole transaction and not only the statement. */
export function endsTransaction(errcode: number): boolean {
  return [sqliteFull, sqliteIoError, sqliteNoMemory].includes(primaryCode(errcode));
}
