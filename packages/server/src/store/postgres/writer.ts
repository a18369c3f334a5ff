import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import type { CopyOrder, SqlWriter, WriteLimit } from "../sql/engine.ts";
import { findExceeded } from "../sql/quotas.ts";
import type { Statement } from "../sql/statement.ts";
import { appendFailure } from "./append-failure.ts";
import { type Connection, type Database, longAnswerMs, toQuery } from "./database.ts";
import { isAway, isRepeatable, uncertain } from "./errors.ts";
import { numberParameters } from "./parameters.ts";

const maxAttempts = 5;

/** Class of the advisory locks that serialise a user's limited rows: "limi" as a number. */
const limitLocks = 0x6c696d69;

/** Runs the writes of the stores that all engines share, each call in one transaction. */
export class PostgresWriter implements SqlWriter {
  readonly #database: Database;
  readonly #quotas: StorageQuotas;
  readonly #onWrite: () => void;
  readonly #tables = new KeyedMutex();

  /** The writer calls `onWrite` after each write, before the promise of the write resolves. */
  constructor(database: Database, quotas: StorageQuotas, onWrite: () => void) {
    this.#database = database;
    this.#quotas = quotas;
    this.#onWrite = onWrite;
  }

  run(...statements: Statement[]): Promise<number> {
    return this.#transact(statements);
  }

  /** A database server has no reserve for a full disk. A removal of much data may take long. */
  release(...statements: Statement[]): Promise<number> {
    return this.#transact(statements, { answerMs: longAnswerMs });
  }

  add(userId: string, ...statements: Statement[]): Promise<number> {
    return this.#transact(statements, {
      check: (connection) => this.#requireRoom(connection, userId, statements),
    });
  }

  addWithin({ userId, full, refuse, countsBytes }: WriteLimit, ...statements: Statement[]): Promise<number> {
    const check = async (connection: Connection) => {
      // Without this lock, two servers that add at the same time would both find room.
      const lock = "SELECT pg_advisory_xact_lock($1, hashtext($2))";
      await connection.query(toQuery(lock, [limitLocks, userId], true));
      if (countsBytes) await this.#requireRoom(connection, userId, statements);
      const query = toQuery(numberParameters(full.sql), full.parameters, false);
      if ((await connection.query(query)).rows.length > 0) throw refuse();
    };
    return this.#transact(statements, { check });
  }

  async #requireRoom(
    connection: Connection,
    userId: string,
    statements: readonly Statement[],
  ): Promise<void> {
    const { userBytes } = this.#quotas;
    if (userBytes === 0) return;
    const sql = "SELECT coalesce(sum(bytes), 0) AS bytes FROM stored_bytes WHERE user_id = $1";
    const { rows } = await connection.query<{ bytes: number }>(toQuery(sql, [userId], true));
    const stored = { conversationBytes: 0, userBytes: rows[0]!.bytes };
    if (findExceeded(stored, sizeOf(statements), this.#quotas, false))
      throw new PlatformError("UserStorageFull");
  }

  async copy({ conversationId, sourceId, span, nowMicros }: CopyOrder): Promise<void> {
    const { conversationBytes, userBytes } = this.#quotas;
    const failure = await this.#persist(async (connection) => {
      const sql = "SELECT copy_events_1($1, $2, $3, $4, $5, $6, $7) AS failure";
      const values = [
        conversationId,
        sourceId,
        span.first,
        span.last,
        nowMicros,
        conversationBytes,
        userBytes,
      ];
      const query = toQuery(sql, values, true, longAnswerMs);
      const { rows } = await connection.query<{ failure: string | null }>(query);
      return rows[0]!.failure;
    });
    if (failure !== null) throw appendFailure(failure);
  }

  #transact(
    statements: readonly Statement[],
    { check, answerMs }: { check?: (connection: Connection) => Promise<void>; answerMs?: number } = {},
  ): Promise<number> {
    return this.#attempt(tableOf(statements), async (connection) => {
      const run = async ({ sql, parameters }: Statement) => {
        const query = toQuery(numberParameters(sql), parameters, false, answerMs);
        return (await connection.query(query)).rowCount ?? 0;
      };
      if (statements.length === 1 && !check) return run(statements[0]!);
      await connection.query("BEGIN");
      try {
        await check?.(connection);
        let changed = 0;
        for (const statement of statements) changed = await run(statement);
        await connection.query("COMMIT");
        return changed;
      } catch (error) {
        // A broken connection is closed, which ends its transaction.
        if (!isAway(error)) await connection.query("ROLLBACK").catch(() => {});
        throw error;
      }
    });
  }

  /** Writes to one table keep the order of their calls, as they would on a single connection. */
  #attempt<T>(table: string, run: (connection: Connection) => Promise<T>): Promise<T> {
    return this.#tables.run(table, () => this.#persist(run));
  }

  async #persist<T>(run: (connection: Connection) => Promise<T>): Promise<T> {
    for (let attempt = 1; ; attempt++) {
      try {
        const result = await this.#database.use(run, { whenBroken: uncertain });
        this.#onWrite();
        return result;
      } catch (error) {
        if (attempt === maxAttempts || !isRepeatable((error as Error).cause)) throw error;
      }
    }
  }
}

/** The table of the first statement. */
function tableOf([first]: readonly Statement[]): string {
  return /\b(?:into|update|from)\s+"?(\w+)/i.exec(first!.sql)?.[1] ?? "";
}

/** Size of the texts of statements, bytes. */
function sizeOf(statements: readonly Statement[]): number {
  const values = statements.flatMap(({ parameters }) => parameters);
  return values.reduce<number>(
    (sum, value) => sum + (typeof value === "string" ? Buffer.byteLength(value) : 0),
    0,
  );
}
