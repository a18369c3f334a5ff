/**
 * Statements of the log, which each engine writes for its tables. The parameters are the number of
 * the conversation and what the name says; a test checks that their plans are index searches
 * without sorting.
 */
export interface EventQueries {
  /** By id: number, last_seq, last_listed, last_micros. */
  readonly log: string;
  /** From a sequence number on, with a limit: seq, listed_index, json. */
  readonly read: string;
  /** The same rows: length, in bytes. */
  readonly readLength: string;
  /** The same rows: items, joined by commas, each `[seq, listed index or 0, json]`. */
  readonly readParsed: string;
  /** By id of a listed event: json, and listed_index. */
  readonly byId: string;
  readonly indexOf: string;
  /** By id of the conversation: number, last_listed, and its navigations or null. */
  readonly navigations: string;
  /** By listed index: timestamp. */
  readonly timeOf: string;
  /** From, to and limit of listed indexes: json. */
  readonly ascending: string;
  readonly descending: string;
  /** The same rows: items, joined by commas. */
  readonly ascendingPage: string;
  readonly descendingPage: string;
  /** The same rows: length, in bytes. */
  readonly ascendingLength: string;
  readonly descendingLength: string;
  /** Kind, from, to, limit and offset: json. */
  readonly kindAscending: string;
  readonly kindDescending: string;
  /** Kind, from and to: count. */
  readonly kindCount: string;
}
