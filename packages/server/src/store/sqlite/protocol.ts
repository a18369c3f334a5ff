import type { Span } from "../branch.ts";

/** What the main thread asks of the writer thread, and its answers. Answers come in the order of the jobs. */

export type Job = AppendJob | RunJob | CopyJob;

/** Appends events to a conversation and changes its summary. Answer: `Stamps`. */
export interface AppendJob {
  type: "append";
  conversationId: string;
  /** Time of the append, microseconds since the epoch; the writer moves it forward where the log is already later. */
  nowMicros: number;
  events: { id: string; kind: string; listed: boolean; body: string }[];
  executionStatus: string | null;
  /** MetricsSnapshot as JSON. */
  metrics: string | null;
  /** What they add up, by usage id, as JSON. */
  stats: string | null;
  /** What the conversation has cost so far, USD; null where no record tells. What is more than before counts as spent now. */
  cost: number | null;
  /** The pending message that these events deliver: it is removed with them. Where it is gone already, nothing is appended. */
  delivers: string | null;
  /** Model calls as JSON. */
  calls: string[];
  /** The events follow on this one, which is listed as the `index`th; null: on none. Where the conversation runs, nothing is appended. */
  navigate?: { eventId: string; index: number } | null;
}

/** Adds listed events of another conversation to the end of a log, as they are. Answer: how many these were. */
export interface CopyJob {
  type: "copy";
  conversationId: string;
  sourceId: string;
  span: Span;
  nowMicros: number;
}

/** Runs statements in one transaction. Answer: the number of rows that the last one changed. */
export interface RunJob {
  type: "run";
  statements: Statement[];
}

export interface Statement {
  sql: string;
  parameters: readonly SqlValue[];
}

export type SqlValue = null | number | string | Uint8Array;

/** The first event has these; each further one has the next sequence number and microsecond. */
export interface AppendResult {
  seq: number;
  micros: number;
  /** The parent of the first listed one; empty: none. Null: the conversation was never navigated, and no event names its parent. */
  head: string | null;
}

export type Result = { ok: true; value: AppendResult | number } | { ok: false; failure: Failure };

export type Failure =
  | { reason: "conversation-not-found" }
  | { reason: "log-full" }
  | { reason: "delivered-already" }
  | { reason: "conversation-running" }
  /** `errcode` is SQLite's (extended) result code, 0 for other errors. */
  | { reason: "error"; errcode: number; message: string };

/** SQLite's primary result codes that mean something here. */
export const sqliteBusy = 5;
const sqliteFull = 13;
export const sqliteConstraint = 19;
const sqliteIoError = 10;
/** The index of the write-ahead log cannot grow (SQLITE_IOERR_SHMSIZE). */
const sqliteNoRoomForIndex = 4874;
const sqliteNoMemory = 7;

/** An extended result code carries the primary one in its low byte. */
export function primaryCode(errcode: number): number {
  return errcode & 0xff;
}

/** No room on the disk, for the database or for what SQLite keeps beside it. */
export function isDiskFull(errcode: number): boolean {
  return primaryCode(errcode) === sqliteFull || errcode === sqliteNoRoomForIndex;
}

/** Errors after which the whole transaction has to be given up, not only the statement. */
export function endsTransaction(errcode: number): boolean {
  return [sqliteFull, sqliteIoError, sqliteNoMemory].includes(primaryCode(errcode));
}
