import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Config } from "../config/config.ts";
import { openSqliteStore } from "./sqlite/open.ts";
import type { Store } from "./store.ts";
import type { Vault } from "./vault.ts";

export interface OpenStoreOptions {
  vault: Vault;
  scheduler: EventLoopScheduler;
  /**
   * This function gets the secret texts that no log or answer may show, before the first connection
   * to the database.
   */
  onSecret(text: string): void;
}

/**
 * Opens the store of a server: the PostgreSQL database that the configuration names, else SQLite in
 * the data folder. Throws ConfigInvalid when the store cannot be used.
 */
export async function openStore(
  { database, dataDir, storageQuotas: quotas }: Pick<Config, "database" | "dataDir" | "storageQuotas">,
  { vault, scheduler, onSecret }: OpenStoreOptions,
): Promise<Store> {
  if (!database) return openSqliteStore({ dir: dataDir, vault, scheduler, quotas });
  const { readDatabaseUrl, secretsOf } = await import("./postgres/read-url.ts");
  const url = await readDatabaseUrl(database);
  for (const text of secretsOf(url)) onSecret(text);
  const { openPostgresStore } = await import("./postgres/open.ts");
  return openPostgresStore({ url, vault, scheduler, quotas });
}
