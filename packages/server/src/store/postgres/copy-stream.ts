import { once } from "node:events";
import type pg from "pg";

/** The parts of a connection of `pg` that a COPY uses. */
interface CopyConnection {
  stream: NodeJS.WritableStream & { readonly writableNeedDrain: boolean };
  query(sql: string): void;
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
  sendCopyFail(message: string): void;
}

/** The functions that `pg` calls on the current statement for the messages of a COPY. */
class CopyStatement {
  /** Resolves when the statement has ended. */
  readonly ended: Promise<void>;
  /** Resolves with the connection when the server is ready to take rows. */
  readonly ready: Promise<CopyConnection>;
  readonly #sql: string;
  readonly #onRow: (row: Buffer) => void;
  readonly #settle = Promise.withResolvers<void>();
  readonly #begin = Promise.withResolvers<CopyConnection>();

  constructor(sql: string, onRow: (row: Buffer) => void = () => {}) {
    this.#sql = sql;
    this.#onRow = onRow;
    this.ended = this.#settle.promise;
    this.ready = this.#begin.promise;
    this.ready.catch(() => {});
  }

  submit(connection: CopyConnection): void {
    connection.query(this.#sql);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    this.#begin.resolve(connection);
  }

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    this.#onRow(chunk);
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.#settle.resolve();
  }

  handleError(error: Error): void {
    this.#settle.reject(error);
    this.#begin.reject(error);
  }
}

/**
 * Runs `COPY … FROM STDIN` with rows in the text format of COPY, as fast as the server takes them.
 * Chunks may end within a row.
 */
export async function copyIn(client: pg.Client, sql: string, chunks: Iterable<Buffer>): Promise<void> {
  const statement = new CopyStatement(sql);
  client.query(statement as unknown as pg.Submittable);
  const failed = statement.ended.then(() => undefined);
  failed.catch(() => {});
  const connection = await statement.ready;
  let failure: { error: unknown } | undefined;
  statement.ended.catch((error: unknown) => {
    failure = { error };
  });
  try {
    for (const chunk of chunks) {
      connection.sendCopyFromChunk(chunk);
      if (connection.stream.writableNeedDrain)
        await Promise.race([once(connection.stream as NodeJS.EventEmitter, "drain"), failed]);
      if (failure) throw failure.error;
    }
  } catch (error) {
    if (!failure) connection.sendCopyFail("The rows could not be read.");
    await statement.ended.catch(() => {});
    throw error;
  }
  connection.endCopyFrom();
  await statement.ended;
}

/** Runs `COPY … TO STDOUT`. `onRow` gets each row in the text format of COPY, with its newline. */
export async function copyOut(client: pg.Client, sql: string, onRow: (row: Buffer) => void): Promise<void> {
  const statement = new CopyStatement(sql, onRow);
  client.query(statement as unknown as pg.Submittable);
  await statement.ended;
}
