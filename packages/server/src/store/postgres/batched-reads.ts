import type { PostgresValue } from "./parameters.ts";

/** The table, the column, and the keys of the rows to read. */
interface Batch {
  table: string;
  column: string;
  waiting: Map<string, PromiseWithResolvers<unknown>>;
}

type Query = <Row>(sql: string, values: readonly PostgresValue[]) => Promise<Row[]>;

/**
 * Reads single rows by a unique column. One statement reads all rows that callers ask for in the
 * same turn of the event loop, so that a list of a hundred rows does not take a hundred round
 * trips.
 */
export class BatchedReads {
  readonly #query: Query;
  readonly #batches = new Map<string, Batch>();

  constructor(query: Query) {
    this.#query = query;
  }

  find<Row>(table: string, column: string, key: string): Promise<Row | undefined> {
    const name = `${table}.${column}`;
    let batch = this.#batches.get(name);
    if (!batch) {
      batch = { table, column, waiting: new Map() };
      this.#batches.set(name, batch);
      // The statement runs once the continuations of all promises that are settled now have run.
      process.nextTick(() => void this.#read(name));
    }
    const waiting = batch.waiting.get(key) ?? Promise.withResolvers<unknown>();
    batch.waiting.set(key, waiting);
    return waiting.promise as Promise<Row | undefined>;
  }

  async #read(name: string): Promise<void> {
    const { table, column, waiting } = this.#batches.get(name)!;
    // Later calls see rows that are stored later.
    this.#batches.delete(name);
    try {
      const sql = `SELECT * FROM ${table} WHERE ${column} = ANY ($1)`;
      const rows = await this.#query<Record<string, unknown>>(sql, [[...waiting.keys()]]);
      const found = new Map(rows.map((row) => [row[column], row]));
      for (const [key, { resolve }] of waiting) resolve(found.get(key));
    } catch (error) {
      for (const { reject } of waiting.values()) reject(error);
    }
  }
}
