import { hash } from "node:crypto";
import pg from "pg";
import { isAway, isStalePlan, toStoreError } from "./errors.ts";
import { type PostgresValue, toParameter } from "./parameters.ts";

const int8 = 20;
const numeric = 1700;

export interface DatabaseOptions {
  /** `postgres://user:password@host/database`. */
  url: string;
  /** Most connections of the pool; the listener has one more. */
  maxConnections?: number;
  /** How long a statement may run, ms. */
  statementMs?: number;
  /**
   * How long the answer to a statement may take, ms; then its connection counts as broken. A
   * statement that needs longer has a limit of its own.
   */
  answerMs?: number;
  /** How long a read, or a write that has not begun, waits for a database that is away, ms. */
  patienceMs?: number;
}

export interface UseOptions {
  /** Returns the error for a connection that broke after the run began. */
  whenBroken?: (error: unknown) => Error;
  /** How long the use waits for a database that is away, ms. */
  patienceMs?: number;
}

const defaults = { maxConnections: 10, statementMs: 30_000, answerMs: 5_000, patienceMs: 3_000 };
const connectMs = 5_000;
const firstDelayMs = 25;
const longestDelayMs = 500;

/** A connection that runs the statements of one transaction. */
export type Connection = Pick<pg.PoolClient, "query"> & {
  /** Id of the database process that runs the statements. */
  readonly processID?: number;
};

/**
 * Numbers of the database become JavaScript numbers, because the store's numbers are below 2^53.
 */
const types: pg.CustomTypesConfig = {
  getTypeParser: ((id: number, format?: "text" | "binary") =>
    id === int8 || id === numeric
      ? Number
      : pg.types.getTypeParser(id, format as "text")) as typeof pg.types.getTypeParser,
};

/** Returns the settings of a connection to a database, in the pool or outside of it. */
export function connectionSettings(url: string, statementMs = defaults.statementMs): pg.ClientConfig {
  return {
    connectionString: url,
    application_name: "sandpiper",
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    statement_timeout: statementMs,
    // An interrupted server must not hold locks.
    idle_in_transaction_session_timeout: statementMs,
    types,
  };
}

/** A bounded pool of connections that is filled again when the database comes back. */
export class Database {
  readonly url: string;
  readonly #pool: pg.Pool;
  readonly #patienceMs: number;
  readonly #settings: pg.ClientConfig;
  readonly #uses = new Set<Promise<unknown>>();
  #isClosed = false;

  constructor({ url, ...options }: DatabaseOptions) {
    const { maxConnections, statementMs, answerMs, patienceMs } = { ...defaults, ...options };
    this.url = url;
    this.#patienceMs = patienceMs;
    this.#settings = { ...connectionSettings(url, statementMs), query_timeout: answerMs };
    this.#pool = new pg.Pool({ ...this.#settings, max: maxConnections });
    // An idle connection that breaks is removed from the pool; the next use opens another one.
    this.#pool.on("error", () => {});
    // A running statement fails with the same error, so this listener ignores it.
    this.#pool.on("connect", (client) => client.on("error", () => {}));
  }

  /** Settings of a connection outside of the pool. */
  get settings(): pg.ClientConfig {
    return this.#settings;
  }

  /**
   * Reads rows. Repeats the read once when its connection breaks, and while the database is away
   * and `patienceMs` has not passed.
   */
  async read<Row>(sql: string, values: readonly PostgresValue[], prepared: boolean): Promise<Row[]> {
    const query = toQuery(sql, values, prepared);
    return this.#track(async (connection) => (await connection.query(query)).rows as Row[], true);
  }

  /** Runs one or more statements on a connection. Does not repeat `run` once it has begun. */
  async use<T>(run: (connection: Connection) => Promise<T>, options: UseOptions = {}): Promise<T> {
    return this.#track(run, false, options);
  }

  #track<T>(run: (connection: Connection) => Promise<T>, repeats: boolean, options?: UseOptions): Promise<T> {
    if (this.#isClosed) return Promise.reject(new Error("The store is closed."));
    const use = this.#patiently(run, repeats, options);
    this.#uses.add(use);
    const forget = () => this.#uses.delete(use);
    use.then(forget, forget);
    return use;
  }

  /** Refuses new uses and waits for the others. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.allSettled(this.#uses);
    await this.#pool.end();
  }

  async #patiently<T>(
    run: (connection: Connection) => Promise<T>,
    repeats: boolean,
    { whenBroken = toStoreError, patienceMs = this.#patienceMs }: UseOptions = {},
  ): Promise<T> {
    const deadline = performance.now() + patienceMs;
    let delay = firstDelayMs;
    for (let isFirst = true; ; isFirst = false, delay = Math.min(2 * delay, longestDelayMs)) {
      let client: pg.PoolClient | undefined;
      try {
        client = await this.#pool.connect();
        const result = await run(client);
        client.release();
        return result;
      } catch (error) {
        const away = isAway(error);
        const isStale = isStalePlan(error);
        // A connection in an unknown state is not used again.
        client?.release(away || isStale || isOpenTransaction(client));
        // The statement has read nothing. Each repetition removes one connection from the pool.
        if (isStale && repeats) continue;
        const begun = client !== undefined && !repeats;
        if (begun && away) throw whenBroken(error);
        // A connection may be silent for longer than the patience, while another one works.
        const isOver = performance.now() + delay > deadline && !(isFirst && client);
        if (!away || this.#isClosed || isOver) throw toStoreError(error);
        await new Promise((resolve) => setTimeout(resolve, delay));
      }
    }
  }
}

/** Time limit of the answer to a statement that may take as long as the database allows, ms. */
export const longAnswerMs = 40_000;

/** A statement with a time limit of its own for its answer, ms. */
type Query = pg.QueryConfig & { query_timeout?: number | undefined };

/**
 * Makes a statement for `query`. A connection plans a prepared statement only once. `answerMs`
 * replaces the time limit of the pool.
 */
export function toQuery(
  sql: string,
  values: readonly PostgresValue[],
  prepared: boolean,
  answerMs?: number,
): Query {
  const query = { text: sql, values: values.map(toParameter), query_timeout: answerMs };
  return prepared ? { ...query, name: nameOf(sql) } : query;
}

const names = new Map<string, string>();

function nameOf(sql: string): string {
  let name = names.get(sql);
  if (name === undefined) {
    name = `s${hash("sha256", sql, "hex").slice(0, 24)}`;
    names.set(sql, name);
  }
  return name;
}

function isOpenTransaction(client: pg.PoolClient): boolean {
  return client.getTransactionStatus() !== "I";
}
