import type { StorageQuotas } from "../../config/storage-quotas.ts";
import type { AppendDraft, AppendStamps } from "../sql/append-draft.ts";
import type { CopyOrder } from "../sql/engine.ts";
import type { Statement } from "../sql/statement.ts";

/**
 * Messages between the main thread and the writer thread. Results come in the order of the jobs.
 */

export type Job = AppendJob | RunJob | CopyJob;

/** Appends events and updates the summary of a conversation. Result: `AppendStamps`. */
export interface AppendJob extends AppendDraft {
  type: "append";
  /** Parent of the events with its listed index; null: none. Fails while the conversation runs. */
  navigate?: { eventId: string; index: number } | null;
}

/** Copies listed events of another conversation to the end of a log. Result: their number. */
export interface CopyJob extends CopyOrder {
  type: "copy";
}

/** Runs statements in one transaction. Result: the number of rows that the last one changed. */
export interface RunJob {
  type: "run";
  /** The user whose quota must have room for the statements. */
  userId?: string;
  /** A statement; the writer writes nothing if this statement finds a row. */
  full?: Statement;
  /** The statements delete or stop something, for which a full disk has a reserve. */
  usesReserve?: boolean;
  statements: Statement[];
}

export type Result = { ok: true; value: AppendStamps | number } | { ok: false; failure: WriteFailure };

export type WriteFailure =
  | { reason: "conversation-not-found" }
  | { reason: "log-full" }
  | { reason: "delivered-already" }
  | { reason: "conversation-running" }
  | { reason: "limit" }
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
