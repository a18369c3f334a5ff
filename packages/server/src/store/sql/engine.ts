import type { PlatformError } from "@sandpiper/core/errors";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { Span } from "../branch.ts";
import type { SqlValue, Statement } from "./statement.ts";

/** A value from an engine that answers at once, or a promise from an engine behind a network. */
export type Awaitable<T> = T | Promise<T>;

/** Reads rows. Statements are prepared once and kept by their text. */
export interface SqlReader {
  get<Row>(sql: string, ...parameters: SqlValue[]): Awaitable<Row | undefined>;
  /**
   * Reads the row of a table whose unique column has the value. An engine behind a network reads
   * all rows that callers ask for at once with one statement.
   */
  find<Row>(table: string, column: string, key: string): Awaitable<Row | undefined>;
  all<Row>(sql: string, ...parameters: SqlValue[]): Awaitable<Row[]>;
  select<Row>(statement: Statement): Awaitable<Row[]>;
  /**
   * Reads the rows from the request's offset on: at most `limit` rows and, after the first row, at
   * most `maxLength` characters of the column `text`.
   */
  page<Text extends string, Row extends Record<Text, string>>(
    statement: Statement,
    text: Text,
    request: PageRequest,
    maxLength?: number,
  ): Awaitable<PageResult<Row>>;
}

/** Writes statements, each call in one transaction that is durable when its promise resolves. */
export interface SqlWriter {
  /**
   * Returns the number of rows that the last statement changed. Throws ConstraintViolation,
   * StorageFull.
   */
  run(...statements: Statement[]): Promise<number>;
  /** Like `run`, for statements that delete or stop something: it works when the disk is full. */
  release(...statements: Statement[]): Promise<number>;
  /** Like `run`, for rows that a user adds. Throws StorageQuotaReached too. */
  add(userId: string, ...statements: Statement[]): Promise<number>;
  /**
   * Like `run`, for rows whose number per user is limited, whichever server adds them. Throws what
   * `refuse` returns, and StorageQuotaReached.
   */
  addWithin(limit: WriteLimit, ...statements: Statement[]): Promise<number>;
  /**
   * Copies listed events to the end of another log. Throws ConversationNotFound, StorageFull,
   * StorageQuotaReached.
   */
  copy(job: CopyOrder): Promise<void>;
}

/** A number of rows that writes of one user must not exceed. */
export interface WriteLimit {
  userId: string;
  /** Statement that finds a row when the user may add no more. */
  full: Statement;
  /** Returns the error for a user who may add no more. */
  refuse(): PlatformError;
  /** True when the texts of the statements count for the user's storage quota too. */
  countsBytes: boolean;
  /** True when the write must work on a full disk, as with `release`. */
  usesReserve?: boolean;
}

export interface CopyOrder {
  conversationId: string;
  sourceId: string;
  span: Span;
  nowMicros: number;
}
