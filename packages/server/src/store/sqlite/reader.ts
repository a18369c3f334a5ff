import { DatabaseSync, type StatementSync } from "node:sqlite";
import { boundedPage, type PageRequest, type PageResult } from "@sandpiper/core/paging";
import type { SqlReader } from "../sql/engine.ts";
import type { SqlValue, Statement } from "../sql/statement.ts";

/** The read-only connection of the main thread, with cached statements. */
export class Reader implements SqlReader {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(file: string) {
    this.#database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  }

  get<Row>(sql: string, ...parameters: SqlValue[]): Row | undefined {
    return this.#prepare(sql).get(...parameters) as Row | undefined;
  }

  find<Row>(table: string, column: string, key: string): Row | undefined {
    return this.get(`SELECT * FROM ${table} WHERE ${column} = ?`, key);
  }

  all<Row>(sql: string, ...parameters: SqlValue[]): Row[] {
    return this.#prepare(sql).all(...parameters) as Row[];
  }

  page<Text extends string, Row extends Record<Text, string>>(
    { sql, parameters }: Statement,
    text: Text,
    request: PageRequest,
    maxLength?: number,
  ): PageResult<Row> {
    const rows = this.#prepare(sql).iterate(...parameters) as Iterable<Row>;
    return boundedPage(rows, (row) => row[text].length, request, maxLength);
  }

  select<Row>(statement: Statement): Row[] {
    return this.all(statement.sql, ...statement.parameters);
  }

  close(): void {
    this.#database.close();
  }

  #prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql);
    if (!statement) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}
