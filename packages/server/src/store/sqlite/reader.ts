import { DatabaseSync, type StatementSync } from "node:sqlite";
import type { SqlValue, Statement } from "./protocol.ts";

/** The read-only connection of the main thread, with cached statements. */
export class Reader {
  readonly #database: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(file: string) {
    this.#database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  }

  get<Row>(sql: string, ...parameters: SqlValue[]): Row | undefined {
    return this.#prepare(sql).get(...parameters) as Row | undefined;
  }

  all<Row>(sql: string, ...parameters: SqlValue[]): Row[] {
    return this.#prepare(sql).all(...parameters) as Row[];
  }

  /** Reads rows lazily. */
  iterate<Row>(sql: string, ...parameters: SqlValue[]): Iterable<Row> {
    return this.#prepare(sql).iterate(...parameters) as Iterable<Row>;
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
