import { chmodSync, closeSync, existsSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { PlatformError } from "@sandpiper/core/errors";
import { primaryCode } from "./protocol.ts";

const sqliteBusy = 5;

/** The store's own folder inside a data folder. */
export interface StoreFolder {
  database: string;
  /** Lets another process have the folder. */
  release(): void;
}

/** Whether a data folder holds a store already, that is, data that its key file has encrypted. */
export function sqliteStoreExists(dir: string): boolean {
  return existsSync(databasePath(dir));
}

/**
 * Makes the folder (mode 0700) and its files (0600) where they are missing, and claims it for this process. The claim is an
 * exclusive transaction on a file of its own: the kernel ends it with the process, whatever way it dies.
 * Throws ConfigInvalid when another process holds the folder.
 */
export function claimFolder(dir: string): StoreFolder {
  const database = databasePath(dir);
  const folder = dirname(database);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
  const lockFile = join(folder, "lock.db");
  touchPrivate(lockFile);
  const lock = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
    touchPrivate(database);
    syncFolder(folder);
    syncFolder(dir);
    return { database, release: () => lock.close() };
  } catch (error) {
    lock.close();
    if (primaryCode((error as { errcode?: number }).errcode ?? 0) !== sqliteBusy) throw error;
    throw new PlatformError("DataFolderInUse", { dir });
  }
}

function databasePath(dir: string): string {
  return join(dir, "store", "sandpiper.db");
}

/** SQLite gives its side files (-wal, -shm) the mode of the database file. */
function touchPrivate(file: string): void {
  closeSync(openSync(file, "a", 0o600));
  chmodSync(file, 0o600);
}

/** Makes the names of new files survive a power loss. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
