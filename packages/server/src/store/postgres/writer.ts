import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import type { CopyOrder, SqlWriter, WriteLimit } from "../sql/engine.ts";
import type { Statement } from "../sql/statement.ts";
import { appendFailure } from "./append-failure.ts";
import { type Connection, type Database, longAnswerMs, toQuery } from "./database.ts";
import { type DatabaseError, isRepeatable, uncertain } from "./errors.ts";
import { refusalCode } from "./migrations/005-refusals.ts";
import { runTransaction } from "./transaction.ts";

const maxAttempts = 5;

/** Class of the advisory locks that serialise a user's limited rows: "limi" as a number. */
const limitLocks = 0x6c696d69;

/** Reasons of refused writes. */
const limitReached = "limit-reached";
const quotaReached = "user-bytes";

interface Transacting {
  /** The table whose writes keep their order; by default that of the first statement. */
  table?: string;
  /** Returns the error for a limit that is reached. */
  refuse?: () => PlatformError;
  answerMs?: number;
}

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
    const all = [...this.#requireRoom(userId, statements), ...statements];
    return this.#transact(all, { table: tableOf(statements) });
  }

  addWithin({ userId, full, refuse, countsBytes }: WriteLimit, ...statements: Statement[]): Promise<number> {
    const checks = [
      // Without this lock, two servers that add at the same time would both find room.
      { sql: "SELECT pg_advisory_xact_lock(?, hashtext(?))", parameters: [limitLocks, userId] },
      ...(countsBytes ? this.#requireRoom(userId, statements) : []),
      { sql: `SELECT refuse_1('${limitReached}') FROM (${full.sql}) AS found`, parameters: full.parameters },
    ];
    return this.#transact([...checks, ...statements], { table: tableOf(statements), refuse });
  }

  /** The statement that fails when the texts of the other statements exceed the user's quota. */
  #requireRoom(userId: string, statements: readonly Statement[]): Statement[] {
    const { userBytes } = this.#quotas;
    if (userBytes === 0) return [];
    const sql = `SELECT refuse_1('${quotaReached}')
      WHERE find_exceeded(0, ?, ?, false, 0, ?) IS NOT NULL`;
    return [{ sql, parameters: [userId, sizeOf(statements), userBytes] }];
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
    { table = tableOf(statements), refuse, answerMs }: Transacting = {},
  ): Promise<number> {
    return this.#attempt(table, (connection) =>
      runTransaction(connection, statements, answerMs).catch((error: DatabaseError) => {
        if (error.code !== refusalCode) throw error;
        throw error.message === quotaReached || !refuse ? new PlatformError("UserStorageFull") : refuse();
      }),
    );
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
