import type pg from "pg";
import type { Statement } from "../sql/statement.ts";
import type { Connection } from "./database.ts";
import { numberParameters, toParameter } from "./parameters.ts";

/** The parts of a connection of `pg` that a transaction uses. */
interface TransactionConnection {
  stream: { cork(): void; uncork(): void };
  parse(statement: { text: string }): void;
  bind(values: { values: readonly (null | string | Buffer)[] }): void;
  execute(portal: object): void;
  sync(): void;
}

/** The functions that `pg` calls for a transaction and its answers. */
class Transaction {
  /** Resolves with the number of rows that the last statement changed. */
  readonly ended: Promise<number>;
  /** `pg` replaces it with a function that ends the time limit too. */
  callback: (error: Error | null) => void;
  /** Time limit of the answer, ms; undefined: that of the connection. */
  readonly query_timeout: number | undefined;
  readonly #statements: readonly Statement[];
  #changed = 0;

  constructor(statements: readonly Statement[], answerMs: number | undefined) {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.ended = promise;
    this.callback = (error) => (error ? reject(error) : resolve(this.#changed));
    this.query_timeout = answerMs;
    this.#statements = statements;
  }

  submit(connection: TransactionConnection): void {
    connection.stream.cork();
    for (const { sql, parameters } of this.#statements) {
      connection.parse({ text: numberParameters(sql) });
      connection.bind({ values: parameters.map(toText) });
      connection.execute({});
    }
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription(): void {}

  handleDataRow(): void {}

  handleEmptyQuery(): void {}

  handleCommandComplete({ text }: { text: string }): void {
    this.#changed = Number(text.split(" ").at(-1)) || 0;
  }

  handleReadyForQuery(): void {
    this.callback(null);
  }

  handleError(error: Error): void {
    this.callback(error);
  }
}

/**
 * Runs statements in one transaction and one round trip: the client sends all of them and then one
 * Sync, which commits. When a statement fails, the server skips the others and rolls back. Each
 * statement sees what was committed before it began, and what the statements before it have
 * changed. Returns the number of rows that the last statement changed.
 */
export function runTransaction(
  connection: Connection,
  statements: readonly Statement[],
  answerMs?: number,
): Promise<number> {
  const transaction = new Transaction(statements, answerMs);
  connection.query(transaction as unknown as pg.Submittable);
  return transaction.ended;
}

/** Returns a value as the protocol carries it. */
function toText(value: Statement["parameters"][number]): null | string | Buffer {
  const parameter = toParameter(value);
  return parameter === null || parameter instanceof Buffer ? parameter : String(parameter);
}
