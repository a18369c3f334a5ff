import { chmodSync, closeSync, existsSync, fsyncSync, mkdirSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { PlatformError } from "@sandpiper/core/errors";
import { primaryCode } from "./protocol.ts";

const sqliteBusy = 5;

/** The store's folder inside a data folder. */
export interface StoreFolder {
  database: string;
  /** Releases the lock. */
  release(): void;
}

/** Whether a data folder has a store, and thus encrypted data. */
export function sqliteStoreExists(dir: string): boolean {
  return existsSync(databasePath(dir));
}

/**
 * Creates missing files (0600) and the folder (0700), and locks it for this process. Throws
 * ConfigInvalid when another process holds the lock.
 */
export function claimFolder(dir: string): StoreFolder {
  const database = databasePath(dir);
  const release = lockFolder(dir);
  try {
    touchPrivate(database);
    syncFolder(dirname(database));
    syncFolder(dir);
    return { database, release };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Locks a data folder for this process with an exclusive transaction on a lock file, which the
 * kernel ends with the process. Returns what releases it. Throws ConfigInvalid when another process
 * holds the lock.
 */
export function lockFolder(dir: string): () => void {
  const folder = dirname(databasePath(dir));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
  const lockFile = join(folder, "lock.db");
  touchPrivate(lockFile);
  const lock = new DatabaseSync(lockFile, { timeout: 0 });
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return () => lock.close();
  } catch (error) {
    lock.close();
    if (primaryCode((error as { errcode?: number }).errcode ?? 0) !== sqliteBusy) throw error;
    throw new PlatformError("DataFolderInUse", { dir });
  }
}

function databasePath(dir: string): string {
  return join(dir, "store", "sandpiper.db");
}

/** Side files (-wal, -shm) get the mode of the database file. */
function touchPrivate(file: string): void {
  closeSync(openSync(file, "a", 0o600));
  chmodSync(file, 0o600);
}

/** Makes the names of new files durable. */
function syncFolder(folder: string): void {
  const descriptor = openSync(folder, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}
