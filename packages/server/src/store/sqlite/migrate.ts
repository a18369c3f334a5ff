import { DatabaseSync } from "node:sqlite";
import { PlatformError } from "@sandpiper/core/errors";
import { initial } from "./migrations/001-initial.ts";
import { sandboxLifecycle } from "./migrations/002-sandbox-lifecycle.ts";
import { platform } from "./migrations/003-platform.ts";
import { agentServer } from "./migrations/004-agent-server.ts";
import { agent } from "./migrations/005-agent.ts";
import { uncleanEnds } from "./migrations/006-unclean-ends.ts";
import { storedBytes } from "./migrations/007-stored-bytes.ts";
import { behaviours } from "./migrations/008-behaviours.ts";
import { sandboxKeys } from "./migrations/009-sandbox-keys.ts";
import { blobs } from "./migrations/010-blobs.ts";
import { openStarts } from "./migrations/011-open-starts.ts";

/**
 * In order; the schema version of a database (`user_version`) is the number of migrations that it
 * has seen.
 */
const migrations: readonly string[] = [
  initial,
  sandboxLifecycle,
  platform,
  agentServer,
  agent,
  uncleanEnds,
  storedBytes,
  behaviours,
  sandboxKeys,
  blobs,
  openStarts,
];

/**
 * Migrates a database to the current schema in one transaction. Throws ConfigInvalid without a
 * change when a newer version has written the database.
 */
export function migrate(database: DatabaseSync, dir: string): void {
  const version = schemaVersion(database);
  if (version > migrations.length) {
    throw new PlatformError("DatabaseTooNew", { dir, version, known: migrations.length });
  }
  if (version === migrations.length) return;
  database.exec("BEGIN IMMEDIATE");
  try {
    for (const sql of migrations.slice(version)) database.exec(sql);
    database.exec(`PRAGMA user_version = ${migrations.length}; COMMIT`);
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/** Whether a database has exactly this program's schema. It is opened for reading alone. */
export function hasCurrentSchema(file: string): boolean {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5000 });
  try {
    return schemaVersion(database) === migrations.length;
  } finally {
    database.close();
  }
}

function schemaVersion(database: DatabaseSync): number {
  return Number(database.prepare("PRAGMA user_version").get()?.user_version ?? 0);
}
