import { DatabaseSync } from "node:sqlite";
import type { Vault } from "../vault.ts";

const place = "store:key-check";

/** Checks that the vault has the key of the database; an unused database gets the vault's key. */
export function checkKey(database: DatabaseSync, vault: Vault): void {
  if (!opensCheck(database, vault))
    database
      .prepare("INSERT INTO meta (name, value) VALUES ('key_check', ?)")
      .run(vault.encrypt("sandpiper", place));
}

/**
 * Checks a vault without a change of the database, which a server may be using. Throws
 * ConfigInvalid when the database belongs to another key.
 */
export function checkKeyOfFile(file: string, vault: Vault): void {
  const database = new DatabaseSync(file, { readOnly: true, timeout: 5_000 });
  try {
    opensCheck(database, vault);
  } finally {
    database.close();
  }
}

/** Checks a vault. Returns false when the database has no key yet. */
function opensCheck(database: DatabaseSync, vault: Vault): boolean {
  const row = database.prepare("SELECT value FROM meta WHERE name = 'key_check'").get();
  if (row) vault.decrypt(row.value as Uint8Array, place);
  return row !== undefined;
}
