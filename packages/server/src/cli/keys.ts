import { join } from "node:path";
import { SqliteApiKeys } from "../store/sqlite/api-keys.ts";
import { sqliteStoreExists } from "../store/sqlite/folder.ts";
import { openSqliteStore } from "../store/sqlite/open.ts";
import { Reader } from "../store/sqlite/reader.ts";
import { createQueryBuilder } from "../store/sqlite/tables.ts";
import { WriterClient } from "../store/sqlite/writer-client.ts";
import { type ApiKeys, defaultUser } from "../users/api.ts";
import { StoredApiKeys } from "../users/api-keys.ts";
import { openVault } from "../users/vault.ts";
import { CliError, exitCodes } from "./errors.ts";
import { commandConfig } from "./local-platform.ts";

/** `sandpiper keys list` */
export async function listKeys(): Promise<void> {
  const keys = await withKeys(async (apiKeys) => apiKeys.list());
  if (keys.length === 0) process.stdout.write("There are no keys yet; the first start of the server makes one.\n");
  for (const { id, name, createdAt } of keys) process.stdout.write(`${id}  ${new Date(createdAt).toISOString()}  ${name}\n`);
}

/** `sandpiper keys create`: the key alone goes to standard output. */
export async function createKey(name: string): Promise<void> {
  if (!name.trim() || name.length > 100)
    throw new CliError("The name of a key has 1 to 100 characters.", { exitCode: exitCodes.usage });
  const key = await withKeys(async (apiKeys) => {
    if (apiKeys.list().some((row) => row.name === name))
      throw new CliError(`There is a key with the name ${JSON.stringify(name)}: revoke it first, or choose another name.`);
    return apiKeys.create(defaultUser, name);
  });
  process.stderr.write(`The key ${JSON.stringify(name)}, shown only this once:\n`);
  process.stdout.write(`${key}\n`);
}

/** `sandpiper keys revoke`, by id or name. */
export async function revokeKey(idOrName: string): Promise<void> {
  await withKeys(async (apiKeys) => {
    const row = apiKeys.list().find(({ id, name }) => id === idOrName || name === idOrName);
    if (!row || !(await apiKeys.remove(row.id)))
      throw new CliError(`There is no key with the id or name ${JSON.stringify(idOrName)}.`);
    process.stdout.write(`Revoked ${JSON.stringify(row.name)}.\n`);
  });
}

/**
 * Works on the keys of the data folder, also while a server holds the folder: the keys have a table of their own, and a change is
 * one short transaction of SQLite.
 */
async function withKeys<T>(work: (apiKeys: ApiKeys) => Promise<T>): Promise<T> {
  const { dataDir } = commandConfig();
  if (!sqliteStoreExists(dataDir)) {
    const vault = await openVault(join(dataDir, "vault.key"), { create: true });
    await (await openSqliteStore({ dir: dataDir, vault })).close();
  }
  const database = join(dataDir, "store", "sandpiper.db");
  const writer = await WriterClient.start(database);
  const reader = new Reader(database);
  try {
    const vault = await openVault(join(dataDir, "vault.key"), { create: false });
    const store = new SqliteApiKeys({ reader, writer, vault, build: createQueryBuilder(), clock: Date.now });
    return await work(new StoredApiKeys(store));
  } finally {
    reader.close();
    await writer.close();
  }
}
