import { boundedPage, maxPageLength, type PageRequest, type PageResult } from "@sandpiper/core/paging";
import type { SqlReader } from "../sql/engine.ts";
import type { SqlValue, Statement } from "../sql/statement.ts";
import { BatchedReads } from "./batched-reads.ts";
import type { Database } from "./database.ts";
import { numberParameters, type PostgresValue, toStorable } from "./parameters.ts";

/** Reads on connections of the pool; fixed statements are prepared. */
export class PostgresReader implements SqlReader {
  readonly #database: Database;
  readonly #batches = new BatchedReads((sql, values) => this.query(sql, values));

  constructor(database: Database) {
    this.#database = database;
  }

  async get<Row>(sql: string, ...parameters: SqlValue[]): Promise<Row | undefined> {
    return (await this.all<Row>(sql, ...parameters))[0];
  }

  find<Row>(table: string, column: string, key: string): Promise<Row | undefined> {
    // PostgreSQL stores another character for a zero character, so the key is converted too.
    return this.#batches.find(table, column, toStorable(key));
  }

  all<Row>(sql: string, ...parameters: SqlValue[]): Promise<Row[]> {
    return this.#database.read<Row>(numberParameters(sql), parameters, true);
  }

  /** Rows of a statement with PostgreSQL's own parameters. */
  query<Row>(sql: string, values: readonly PostgresValue[]): Promise<Row[]> {
    return this.#database.read<Row>(sql, values, true);
  }

  select<Row>({ sql, parameters }: Statement): Promise<Row[]> {
    return this.#database.read<Row>(sql, parameters, false);
  }

  async page<Text extends string, Row extends Record<Text, string>>(
    { sql, parameters }: Statement,
    text: Text,
    request: PageRequest,
    maxLength = maxPageLength,
  ): Promise<PageResult<Row>> {
    const rows = await this.all<Row>(boundRows(sql, text), ...parameters);
    return boundedPage(rows, (row) => row[text].length, request, maxLength);
  }
}

/** A unit of a JavaScript string has at most three bytes. */
const maxBytes = 3 * maxPageLength;

const bounded = new Map<string, string>();

/**
 * Returns a statement that ends after the row that exceeds `maxPageLength`, before the database
 * reads further texts: the driver keeps all rows of an answer in memory.
 */
function boundRows(sql: string, text: string): string {
  let statement = bounded.get(sql);
  if (statement === undefined) {
    statement = `SELECT * FROM
      (SELECT *, sum(octet_length(${text})) OVER (ROWS UNBOUNDED PRECEDING) - octet_length(${text}) AS before
       FROM (${sql}) found) counted WHERE before <= ${maxBytes}`;
    bounded.set(sql, statement);
  }
  return statement;
}
