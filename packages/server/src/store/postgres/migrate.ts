import { PlatformError } from "@sandpiper/core/errors";
import { type Connection, toQuery } from "./database.ts";
import type { DatabaseError } from "./errors.ts";
import { initial } from "./migrations/001-initial/migration.ts";
import { openStarts } from "./migrations/002-open-starts.ts";
import { endedNodes } from "./migrations/003-ended-nodes.ts";
import { slots } from "./migrations/004-slots.ts";
import { refusals } from "./migrations/005-refusals.ts";

interface Migration {
  name: string;
  sql: string;
  /** True when servers that do not know the migration can work with the changed schema. */
  isCompatible: boolean;
}

/**
 * The migrations in order. They only add to the schema, because older servers work during a
 * migration.
 */
const migrations: readonly Migration[] = [
  { name: "initial", sql: initial, isCompatible: false },
  { name: "open starts", sql: openStarts, isCompatible: true },
  { name: "ended nodes", sql: endedNodes, isCompatible: true },
  { name: "slots", sql: slots, isCompatible: true },
  { name: "refusals", sql: refusals, isCompatible: true },
];

/** Key of the advisory lock of processes that prepare one database: "sand" as a number. */
export const migrationLock = 0x73616e64;

/**
 * Brings the schema up to date with one transaction for each migration, while other servers wait or
 * work. Throws ConfigInvalid and changes nothing when a newer version has changed the schema in a
 * way that this version does not understand, or when the database has tables of another program.
 */
export async function migrate(connection: Connection, address: string): Promise<void> {
  await connection.query("SET statement_timeout = 0");
  await connection.query(toQuery("SELECT pg_advisory_lock($1)", [migrationLock], false));
  try {
    const version = await requireKnownSchema(connection, address);
    for (const [index, migration] of migrations.entries())
      if (index >= version) await apply(connection, index + 1, migration);
  } catch (error) {
    const { code, message } = error as DatabaseError;
    if (code !== "42501") throw error;
    throw new PlatformError("DatabaseRights", { address, reason: message }, { cause: error });
  } finally {
    await connection.query(toQuery("SELECT pg_advisory_unlock($1)", [migrationLock], false)).catch(() => {});
    await connection.query("RESET statement_timeout").catch(() => {});
  }
}

async function requireKnownSchema(connection: Connection, address: string): Promise<number> {
  const tables = await connection.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
  );
  if (!tables.rows.some(({ name }) => name === "schema_migrations")) {
    const [foreign] = tables.rows;
    if (foreign) throw new PlatformError("DatabaseForeign", { address, table: foreign.name });
    await connection.query(`CREATE TABLE schema_migrations (
      version integer PRIMARY KEY, name text NOT NULL, compatible boolean NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`);
  }
  const { rows } = await connection.query<{ version: number; unknown: boolean }>(
    toQuery(
      `SELECT coalesce(max(version), 0) AS version,
         coalesce(bool_or(version > $1 AND NOT compatible), false) AS unknown FROM schema_migrations`,
      [migrations.length],
      false,
    ),
  );
  const { version, unknown } = rows[0]!;
  if (unknown) throw new PlatformError("SchemaTooNew", { address, version, known: migrations.length });
  return version;
}

async function apply(
  connection: Connection,
  version: number,
  { name, sql, isCompatible }: Migration,
): Promise<void> {
  const record = "INSERT INTO schema_migrations (version, name, compatible) VALUES ($1, $2, $3)";
  await connection.query("BEGIN");
  try {
    await connection.query(sql);
    await connection.query(toQuery(record, [version, name, isCompatible], false));
    await connection.query("COMMIT");
  } catch (error) {
    await connection.query("ROLLBACK").catch(() => {});
    throw error;
  }
}
