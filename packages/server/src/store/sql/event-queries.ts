/**
 * Statements of the log, which each engine writes for its tables. The first parameter of each is
 * the number of the conversation, unless its comment names another one. A test checks that the
 * plans are index searches without sorting.
 */
export interface EventQueries {
  /** First parameter: id of the conversation. Result: number, `last_…` columns. */
  readonly log: string;
  /** Further parameters: first sequence number, limit. Result: seq, listed_index, json. */
  readonly read: string;
  /** Same parameters and rows. Result: length, the sum of their lengths in bytes. */
  readonly readLength: string;
  /** Same parameters. Result: items, joined by commas, each `[seq, listed index or 0, json]`. */
  readonly readParsed: string;
  /** Further parameter: id of a listed event. Result: json; listed_index for `indexOf`. */
  readonly byId: string;
  readonly indexOf: string;
  /** First parameter: id of the conversation. Result: number, last_listed, navigations or null. */
  readonly navigations: string;
  /** Further parameter: listed index. Result: timestamp. */
  readonly timeOf: string;
  /** Further parameters: first and last listed index, limit. Result: seq, listed_index, json. */
  readonly ascending: string;
  /** Same parameters. Result: json. */
  readonly descending: string;
  /** Same parameters and rows. Result: items, joined by commas. */
  readonly ascendingPage: string;
  readonly descendingPage: string;
  /** Same parameters and rows. Result: length, the sum of their lengths in bytes. */
  readonly ascendingLength: string;
  readonly descendingLength: string;
  /** Further parameters: kind, first and last listed index, limit, offset. Result: json. */
  readonly kindAscending: string;
  readonly kindDescending: string;
  /** Further parameters: kind, first and last listed index. Result: count. */
  readonly kindCount: string;
}
