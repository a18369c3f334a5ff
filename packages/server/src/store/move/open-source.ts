import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { PlatformError } from "@sandpiper/core/errors";
import { lockFolder, sqliteStoreExists } from "../sqlite/folder.ts";
import { checkKeyOfFile } from "../sqlite/key-check.ts";
import { hasCurrentSchema, migrate } from "../sqlite/migrate.ts";
import type { Vault } from "../vault.ts";
import { MoveSource } from "./move-source.ts";

/**
 * Opens the store of a data folder to be copied, and upgrades it as a server does at its start.
 * `place` is the id of the folder; null: every server can run its sandboxes. Throws ConfigInvalid
 * when there is no store, another process uses it, or its vault key is another one.
 */
export function openMoveSource(
  dataDir: string,
  { vault, place }: { vault: Vault; place: string | null },
): { source: MoveSource; close(): void } {
  const file = findStore(dataDir);
  const release = lockFolder(dataDir);
  try {
    checkKeyOfFile(file, vault);
    const database = new DatabaseSync(file, { timeout: 5_000 });
    try {
      database.exec("PRAGMA foreign_keys = ON");
      migrate(database, dataDir);
    } finally {
      database.close();
    }
    const source = new MoveSource(file, { place, isLocked: true });
    return {
      source,
      close() {
        source.close();
        release();
      },
    };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Opens the store of a data folder for reading only. Does not upgrade it, and works while a server
 * uses the folder.
 */
export function readMoveSource(dataDir: string, vault: Vault): MoveSource {
  const file = findStore(dataDir);
  checkKeyOfFile(file, vault);
  if (!hasCurrentSchema(file)) throw new PlatformError("MoveSourceOld", { dir: dataDir });
  return new MoveSource(file, { place: null, isLocked: false });
}

function findStore(dataDir: string): string {
  if (!sqliteStoreExists(dataDir)) throw new PlatformError("MoveSourceMissing", { dir: dataDir });
  return join(dataDir, "store", "sandpiper.db");
}
