import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError } from "@sandpiper/core/errors";
import type pg from "pg";
import { copyIn, copyOut } from "../postgres/copy-stream.ts";
import { toQuery } from "../postgres/database.ts";
import { claimInstallation } from "../postgres/installation.ts";
import { migrate, migrationLock } from "../postgres/migrate.ts";
import type { Vault } from "../vault.ts";
import { DigestSum, type TableDigest } from "./digest.ts";
import { type MovedTable, movedTables } from "./moved-tables.ts";

/** How long a move waits for another command or a starting server, ms. */
const patienceMs = 15_000;
const lookMs = 200;

const tableNames = movedTables.map(({ name }) => name);

/** The database that gets the tables. `begin` begins the one transaction of the copy. */
export class MoveTarget {
  readonly #client: pg.Client;
  readonly #address: string;

  constructor(client: pg.Client, address: string) {
    this.#client = client;
    this.#address = address;
  }

  /**
   * Says what a database contains: `new` has no tables, `empty` has empty tables, `used` has rows.
   * Changes nothing. Throws ConfigInvalid when the database has tables of another program, or when
   * a server works on it.
   */
  async look(): Promise<"new" | "empty" | "used"> {
    const { rows } = await this.#client.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
    );
    const names = new Set(rows.map(({ name }) => name));
    if (!names.has("schema_migrations")) {
      const [foreign] = names;
      if (foreign === undefined) return "new";
      throw new PlatformError("DatabaseForeign", { address: this.#address, table: foreign });
    }
    if (names.has("nodes") && (await this.#has("nodes WHERE expires_at > clock_timestamp()")))
      throw new PlatformError("MoveTargetInUse", { address: this.#address });
    for (const name of tableNames) if (names.has(name) && (await this.#has(name))) return "used";
    return "empty";
  }

  /**
   * Makes the tables and begins the transaction. No server can start or write until it ends. Throws
   * ConfigInvalid as `look` does, when another process prepares the database, and when its data was
   * encrypted with another vault key.
   */
  async begin(vault: Vault): Promise<"empty" | "used"> {
    await this.#lock();
    await migrate(this.#client, this.#address);
    // A large table takes longer than the time limit of a server's statements. `migrate` has set
    // that limit, so it is removed after `migrate`.
    for (const setting of ["statement_timeout", "idle_in_transaction_session_timeout"])
      await this.#client.query(`SET ${setting} = 0`);
    await this.#client.query("BEGIN");
    await this.#client.query("SET LOCAL lock_timeout = '30s'");
    await this.#client.query(`LOCK TABLE nodes, ${tableNames.join(", ")} IN SHARE ROW EXCLUSIVE MODE`);
    await claimInstallation(this.#client, vault, this.#address);
    return (await this.look()) === "used" ? "used" : "empty";
  }

  /** Stores the rows of a table, which are in the text format of COPY, without its triggers. */
  async fill({ name, columns }: MovedTable, chunks: Iterable<Buffer>): Promise<void> {
    const names = Object.keys(columns);
    await this.#client.query(`ALTER TABLE ${name} DISABLE TRIGGER USER`);
    await copyIn(this.#client, `COPY ${name} (${names.join(", ")}) FROM STDIN`, chunks);
    await this.#client.query(`ALTER TABLE ${name} ENABLE TRIGGER USER`);
    if (columns.number)
      await this.#client.query(
        `SELECT setval(pg_get_serial_sequence('${name}', 'number'), max(number)) FROM ${name} HAVING count(*) > 0`,
      );
  }

  async count({ name }: MovedTable): Promise<number> {
    const { rows } = await this.#client.query<{ count: number }>(`SELECT count(*) AS count FROM ${name}`);
    return rows[0]!.count;
  }

  async digest({ name, columns, key }: MovedTable, onRow: () => void): Promise<TableDigest> {
    const sum = new DigestSum(name === "events");
    const selected = Object.entries(columns).map(([column, type]) =>
      type === "double" ? `float8send(${column})` : column,
    );
    const sql = `COPY (SELECT ${selected.join(", ")} FROM ${name} ORDER BY ${key}) TO STDOUT`;
    await copyOut(this.#client, sql, (row) => {
      sum.add(row);
      onRow();
    });
    return sum.end();
  }

  /** Commits the transaction, which makes all rows visible at once. */
  async commit(): Promise<void> {
    await this.#client.query("COMMIT");
    // The first queries need to know how large the tables are.
    await this.#client.query(`ANALYZE ${tableNames.join(", ")}`);
  }

  async #has(rows: string): Promise<boolean> {
    const found = await this.#client.query<{ found: boolean }>(
      `SELECT EXISTS (SELECT 1 FROM ${rows}) AS found`,
    );
    return found.rows[0]!.found;
  }

  /** Takes the lock of servers that start; the lock ends with the connection. */
  async #lock(): Promise<void> {
    const deadline = performance.now() + patienceMs;
    for (;;) {
      const query = toQuery("SELECT pg_try_advisory_lock($1) AS locked", [migrationLock], false);
      if ((await this.#client.query<{ locked: boolean }>(query)).rows[0]!.locked) return;
      if (performance.now() > deadline) throw new PlatformError("MoveTargetBusy", { address: this.#address });
      await sleep(lookMs);
    }
  }
}
