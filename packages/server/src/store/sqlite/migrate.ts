import type { DatabaseSync } from "node:sqlite";
import { PlatformError } from "../../errors.ts";
import { initial } from "./migrations/001-initial.ts";
import { sandboxLifecycle } from "./migrations/002-sandbox-lifecycle.ts";
import { platform } from "./migrations/003-platform.ts";

/** In order; the schema version of a database (`user_version`) is the number of migrations that it has seen. */
const migrations: readonly string[] = [initial, sandboxLifecycle, platform];

/**
 * Brings a database to this program's schema, each migration in a transaction of its own.
 * Throws ConfigInvalid for a database that a newer program has written; nothing is changed then.
 */
export function migrate(database: DatabaseSync, dir: string): void {
  const version = Number(database.prepare("PRAGMA user_version").get()?.user_version ?? 0);
  if (version > migrations.length) {
    throw new PlatformError(
      "ConfigInvalid",
      `The data folder ${dir} was written by a newer version of Sandpiper (schema ${version}, this one knows ${migrations.length}): start that version, or restore a backup.`,
    );
  }
  for (const [index, sql] of migrations.entries()) {
    if (index < version) continue;
    database.exec("BEGIN IMMEDIATE");
    try {
      database.exec(sql);
      database.exec(`PRAGMA user_version = ${index + 1}`);
      database.exec("COMMIT");
    } catch (error) {
      if (database.isTransaction) database.exec("ROLLBACK");
      throw error;
    }
  }
}
