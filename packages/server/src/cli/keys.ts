import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { Config } from "../config/config.ts";
import { readDatabaseUrl } from "../store/postgres/read-url.ts";
import { SqlApiKeys } from "../store/sql/api-keys.ts";
import { createQueryBuilder, sqliteDialect } from "../store/sqlite/dialect.ts";
import { sqliteStoreExists } from "../store/sqlite/folder.ts";
import { hasCurrentSchema } from "../store/sqlite/migrate.ts";
import { openSqliteStore } from "../store/sqlite/open.ts";
import { Reader } from "../store/sqlite/reader.ts";
import { WriterClient } from "../store/sqlite/writer-client.ts";
import type { ApiKeyRow, ApiKeyStore } from "../store/user-store.ts";
import { openVaultOf } from "../store/vault-key/open-vault.ts";
import type { ApiKeys } from "../users/api.ts";
import { StoredApiKeys } from "../users/api-keys.ts";
import { defaultUser, userNamePattern } from "../users/default-user.ts";
import { CliError, exitCodes } from "./errors.ts";
import { parseExpiry } from "./expiry.ts";
import { inertJson, inertLine } from "./inert.ts";
import { loadConfig } from "./load-config.ts";
import { formatTable } from "./table.ts";

/** `sandpiper keys list` */
export async function listKeys({ user }: { user?: string }): Promise<void> {
  checkUser(user);
  const keys = await withKeys((apiKeys) => apiKeys.list(user));
  if (keys.length > 0) process.stdout.write(keyTable(keys));
  else if (user === undefined)
    process.stdout.write("There are no keys yet; the first start of the server creates one.\n");
  else process.stdout.write(`The user ${user} has no keys.\n`);
}

/**
 * `sandpiper keys create`: prints only the key to standard output. A user is created by the first
 * key.
 */
export async function createKey({
  user = defaultUser,
  name,
  expires,
  readOnly = false,
}: CreateOptions): Promise<void> {
  checkUser(user);
  const expiresAt = expires === undefined ? null : parseExpiry(expires, Date.now());
  if (expiresAt === undefined)
    throw usageError(
      "--expires takes a number of days such as 30d, or the last day such as 2027-01-31, not in the past.",
    );
  if (name !== undefined && (!name.trim() || name.length > 100))
    throw usageError("The name of a key must have 1 to 100 characters.");
  const { key, row } = await withKeys(async (apiKeys) =>
    apiKeys.add(user, { name: name ?? chooseFreeName(await apiKeys.list(user)), expiresAt, readOnly }),
  );
  const whose = user === defaultUser ? "" : ` of ${user}`;
  process.stderr.write(`The key ${inertJson(row.name)}${whose}, shown only this once:\n`);
  process.stdout.write(`${key}\n`);
}

interface CreateOptions {
  user?: string;
  name?: string;
  expires?: string;
  readOnly?: boolean;
}

/** `sandpiper keys revoke`, by id or name; a name that several users have needs --user. */
export async function revokeKey(idOrName: string, { user }: { user?: string }): Promise<void> {
  checkUser(user);
  await withKeys(async (apiKeys) => {
    const keys = await apiKeys.list(user);
    const byId = keys.filter(({ id }) => id === idOrName);
    const found = byId.length > 0 ? byId : keys.filter(({ name }) => name === idOrName);
    if (found.length > 1) {
      const users = found.map((row) => row.userId).join(", ");
      throw new CliError(
        `The users ${users} have a key ${inertJson(idOrName)} each: select a user with --user, or use the id.`,
      );
    }
    const [row] = found;
    if (!row || !(await apiKeys.remove(row.id)))
      throw new CliError(`There is no key with the id or name ${inertJson(idOrName)}.`);
    process.stdout.write(`Revoked ${inertJson(row.name)}.\n`);
  });
}

function checkUser(user: string | undefined): void {
  if (user === undefined || userNamePattern.test(user)) return;
  throw usageError(
    "The name of a user must have 1 to 64 lower-case letters, digits or . _ @ + -, and begin and end with a letter or digit.",
  );
}

/** `key 1`, or the next free number. */
function chooseFreeName(keys: readonly ApiKeyRow[]): string {
  const taken = new Set(keys.map(({ name }) => name));
  for (let number = 1; ; number++) if (!taken.has(`key ${number}`)) return `key ${number}`;
}

function usageError(sentence: string): CliError {
  return new CliError(sentence, { exitCode: exitCodes.usage });
}

/**
 * Accesses the keys, even while servers run. Migrates an older store first; for a data folder, the
 * server must be stopped for that.
 */
async function withKeys<T>(work: (apiKeys: ApiKeys) => Promise<T>): Promise<T> {
  const config = loadConfig();
  const { keys, close } = await (config.database ? openDatabaseKeys(config) : openFolderKeys(config));
  try {
    return await work(new StoredApiKeys(keys));
  } catch (error) {
    if (error instanceof PlatformError && (error.code === "KeyExists" || error.code === "TooManyKeys"))
      throw new CliError(
        `${error.message.replace(/\.$/, "")}${error.code === "KeyExists" ? ": revoke it first, or choose another name." : "."}`,
      );
    throw error;
  } finally {
    await close();
  }
}

interface OpenedKeys {
  keys: ApiKeyStore;
  close(): Promise<void>;
}

async function openDatabaseKeys({ database, dataDir, vaultKey }: Config): Promise<OpenedKeys> {
  const url = await readDatabaseUrl(database!);
  const vault = await openVaultOf(vaultKey, { dataDir, create: true });
  const { openPostgresStore } = await import("../store/postgres/open.ts");
  const store = await openPostgresStore({ url, vault });
  return { keys: store.apiKeys, close: () => store.close() };
}

/** A change of the keys is one short SQLite transaction, which may run beside a server. */
async function openFolderKeys({ dataDir, vaultKey }: Config): Promise<OpenedKeys> {
  const database = join(dataDir, "store", "sandpiper.db");
  const exists = sqliteStoreExists(dataDir);
  const vault = await openVaultOf(vaultKey, { dataDir, create: !exists });
  if (!exists || !hasCurrentSchema(database)) await (await openSqliteStore({ dir: dataDir, vault })).close();
  const writer = await WriterClient.start(database);
  const reader = new Reader(database);
  const parts = { reader, writer, vault, dialect: sqliteDialect, clock: Date.now };
  return {
    keys: new SqlApiKeys({ ...parts, build: createQueryBuilder() }),
    async close() {
      reader.close();
      await writer.close();
    },
  };
}

/** Formats keys as a table. */
function keyTable(keys: readonly ApiKeyRow[]): string {
  const rows = keys.map(({ id, userId, name, createdAt, expiresAt, lastUsedAt, readOnly }) => [
    id,
    userId,
    time(createdAt),
    expiresAt === null ? "never" : time(expiresAt),
    lastUsedAt === null ? "never" : time(lastUsedAt),
    readOnly ? "read-only" : "full",
    // The name is last because it may contain spaces.
    inertLine(name),
  ]);
  return formatTable([["ID", "USER", "CREATED", "EXPIRES", "LAST USED", "RIGHTS", "NAME"], ...rows]);
}

function time(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 16)}Z`;
}
