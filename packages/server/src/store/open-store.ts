import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Config } from "../config/config.ts";
import { openSqliteStore } from "./sqlite/open.ts";
import type { Store } from "./store.ts";
import type { Vault } from "./vault.ts";

export interface OpenStoreOptions {
  vault: Vault;
  scheduler: EventLoopScheduler;
  /** Called with what no log or answer may show, before the database is asked. */
  onSecret(text: string): void;
}

/**
 * Opens the store of a server: in the PostgreSQL database of its configuration, else in the data
 * folder. Throws ConfigInvalid when it cannot be used.
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
