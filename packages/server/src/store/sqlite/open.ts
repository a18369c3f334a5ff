import { DatabaseSync } from "node:sqlite";
import { PlatformError } from "@sandpiper/core/errors";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { StorageQuotas } from "../../config/storage-quotas.ts";
import { createSqlStores } from "../sql/stores.ts";
import type { Store } from "../store.ts";
import type { Vault } from "../vault.ts";
import { createQueryBuilder, sqliteDialect } from "./dialect.ts";
import { SqliteEventLog } from "./event-log.ts";
import { claimFolder } from "./folder.ts";
import { checkKey } from "./key-check.ts";
import { migrate } from "./migrate.ts";
import { removeOrphans } from "./orphans.ts";
import { primaryCode } from "./protocol.ts";
import { Reader } from "./reader.ts";
import { WriterClient } from "./writer-client.ts";

const sqliteCorrupt = 11;
const sqliteNotADatabase = 26;

export interface SqliteStoreOptions {
  /** The data folder; the files of the store are in its folder `store`. */
  dir: string;
  /** Must have the key that the data was encrypted with. */
  vault: Vault;
  scheduler?: EventLoopScheduler;
  /** Default: no limits. */
  quotas?: StorageQuotas;
  /** Milliseconds since the epoch. */
  clock?: () => number;
}

/**
 * Opens or creates the store of a data folder for this process only. Throws ConfigInvalid when the
 * folder is in use, damaged, of a newer version, or encrypted with another key.
 */
export async function openSqliteStore({
  dir,
  vault,
  scheduler,
  quotas,
  clock = Date.now,
}: SqliteStoreOptions): Promise<Store> {
  const folder = claimFolder(dir);
  let writer: WriterClient | undefined;
  try {
    const database = prepareDatabase(folder.database, dir, vault);
    try {
      writer = await WriterClient.start(folder.database, { scheduler, ...(quotas && { quotas }) });
    } finally {
      database.close();
    }
    return assemble(writer, new Reader(folder.database), folder.release, vault, clock);
  } catch (error) {
    await writer?.close();
    folder.release();
    throw error;
  }
}

/** Migrates the database and checks the vault's key; returns the open connection. */
function prepareDatabase(file: string, dir: string, vault: Vault): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: 5000 });
  try {
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    migrate(database, dir);
    checkKey(database, vault);
    removeOrphans(database);
    return database;
  } catch (error) {
    database.close();
    if (
      [sqliteCorrupt, sqliteNotADatabase].includes(primaryCode((error as { errcode?: number }).errcode ?? 0))
    ) {
      throw new PlatformError("DatabaseDamaged", { file }, { cause: error });
    }
    throw error;
  }
}

function assemble(
  writer: WriterClient,
  reader: Reader,
  release: () => void,
  vault: Vault,
  clock: () => number,
): Store {
  const context = { reader, writer, build: createQueryBuilder(), dialect: sqliteDialect, vault, clock };
  return {
    ...createSqlStores(context),
    events: new SqliteEventLog({ reader, writer, clock }),
    version: () => writer.version,
    async close() {
      await writer.close();
      reader.close();
      release();
    },
  };
}
