import type { PlatformError } from "@sandpiper/core/errors";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { Span } from "../branch.ts";
import type { SqlValue, Statement } from "./statement.ts";

/** A value of an engine that answers at once, or a promise of one that is asked over a network. */
export type Awaitable<T> = T | Promise<T>;

/** Reads rows. Statements are prepared once and kept by their text. */
export interface SqlReader {
  get<Row>(sql: string, ...parameters: SqlValue[]): Awaitable<Row | undefined>;
  /**
   * The row of a table whose unique column has the value. An engine that is asked over a network
   * reads all rows that are asked for at once together.
   */
  find<Row>(table: string, column: string, key: string): Awaitable<Row | undefined>;
  all<Row>(sql: string, ...parameters: SqlValue[]): Awaitable<Row[]>;
  select<Row>(statement: Statement): Awaitable<Row[]>;
  /**
   * Rows that begin at the request's offset, at most `limit` of them and, after the first one, at
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
  /** Like `run`, for what deletes or stops something: it works when the disk is full. */
  release(...statements: Statement[]): Promise<number>;
  /** Like `run`, for rows that a user adds. Throws StorageQuotaReached too. */
  add(userId: string, ...statements: Statement[]): Promise<number>;
  /**
   * Like `run`, for rows of which a user may have only so many, whichever server adds them. Throws
   * what `refuse` gives, and StorageQuotaReached.
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
  /** Finds a row when nothing more may be added. */
  full: Statement;
  /** The error then. */
  refuse(): PlatformError;
  /** The texts of the statements count for the quota of the user's storage, too. */
  countsBytes: boolean;
}

export interface CopyOrder {
  conversationId: string;
  sourceId: string;
  span: Span;
  nowMicros: number;
}
