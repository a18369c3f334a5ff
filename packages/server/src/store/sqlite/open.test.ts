import { randomBytes } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, expect, test } from "vitest";
import { conversationRow, message, openStore, temporaryFolder } from "../../../test/support/store.ts";
import { createVault, openVault } from "../vault.ts";
import { sqliteStoreExists } from "./folder.ts";
import { initial } from "./migrations/001-initial.ts";
import { openSqliteStore } from "./open.ts";

let dir: string;
let remove: () => void;
beforeEach(() => {
  ({ dir, remove } = temporaryFolder());
});
afterEach(() => remove());

const database = () => join(dir, "store", "sandpiper.db");

test("the store's folder and files are closed to other users, whatever the umask", async () => {
  const umask = process.umask(0);
  try {
    const store = await openStore(dir);
    await store.conversations.create(conversationRow());
    expect(statSync(join(dir, "store")).mode & 0o777).toBe(0o700);
    const files = readdirSync(join(dir, "store"));
    expect(files).toEqual(
      expect.arrayContaining(["sandpiper.db", "sandpiper.db-wal", "sandpiper.db-shm", "lock.db"]),
    );
    for (const file of files)
      expect([file, statSync(join(dir, "store", file)).mode & 0o777]).toEqual([file, 0o600]);
    await store.close();
    chmodSync(database(), 0o644);
    await (await openStore(dir)).close();
    expect(statSync(database()).mode & 0o777).toBe(0o600);
  } finally {
    process.umask(umask);
  }
});

test("a database of a newer version is refused and not changed", async () => {
  await (await openStore(dir)).close();
  const newer = new DatabaseSync(database());
  const { user_version: version } = newer.prepare("PRAGMA user_version").get()!;
  newer.exec("PRAGMA user_version = 999");
  newer.close();
  await expect(openStore(dir)).rejects.toMatchObject({ code: "ConfigInvalid" });
  await expect(openStore(dir)).rejects.toThrow(/newer version of Sandpiper \(schema 999/);
  const after = new DatabaseSync(database());
  expect(after.prepare("PRAGMA user_version").get()).toEqual({ user_version: 999 });
  after.exec(`PRAGMA user_version = ${version}`);
  after.close();
  await (await openStore(dir)).close();
});

test("sandboxes of the first schema are kept, and their last use is set to now", async () => {
  await (await openStore(dir)).close();
  const vault = await openVault(join(dir, "vault.key"), { create: false });
  for (const name of readdirSync(join(dir, "store")).filter((name) => name.startsWith("sandpiper.db")))
    rmSync(join(dir, "store", name));
  const old = new DatabaseSync(database());
  old.exec(`${initial} PRAGMA user_version = 1;`);
  old
    .prepare("INSERT INTO sandboxes VALUES (1, 's1', 'default', 'host', 'RUNNING', NULL, '1', ?, ?, 1)")
    .run(vault.encrypt("a key", "sandbox-session-key:s1"), randomBytes(32));
  old.close();
  const store = await openStore(dir);
  const kept = { sessionKey: "a key", spec: null, prepared: false, snapshotId: null };
  expect(await store.sandboxes.get("s1")).toMatchObject(kept);
  expect(Math.abs((await store.sandboxes.get("s1"))!.lastUsedAt - Date.now())).toBeLessThan(60_000);
  await store.close();
});

test("an update that fails changes nothing, so the version before it can use the database", async () => {
  await (await openStore(dir)).close();
  for (const name of readdirSync(join(dir, "store")).filter((name) => name.startsWith("sandpiper.db")))
    rmSync(join(dir, "store", name));
  const old = new DatabaseSync(database());
  old.exec(`${initial} CREATE TABLE blob_references (taken TEXT); PRAGMA user_version = 1;`);
  const schema = old.prepare("SELECT name, sql FROM sqlite_schema").all();
  old.close();
  await expect(openStore(dir)).rejects.toThrow("blob_references already exists");
  const after = new DatabaseSync(database());
  expect(after.prepare("PRAGMA user_version").get()).toEqual({ user_version: 1 });
  expect(after.prepare("SELECT name, sql FROM sqlite_schema").all()).toEqual(schema);
  after.close();
});

test("a damaged database is refused with a sentence that names the file", async () => {
  await (await openStore(dir)).close();
  writeFileSync(database(), randomBytes(8192));
  await expect(openStore(dir)).rejects.toThrow(`The database ${database()} is damaged`);
  await expect(openStore(dir)).rejects.toMatchObject({ code: "ConfigInvalid" });
});

test("a store opens only with its own key", async () => {
  await (await openStore(dir)).close();
  const other = openSqliteStore({ dir, vault: createVault(randomBytes(32)) });
  await expect(other).rejects.toMatchObject({ code: "ConfigInvalid" });
  await expect(other).rejects.toThrow("the key belongs to other data");
  await (await openStore(dir)).close();
});

test("without the key file an existing store is refused and no new key is made", async () => {
  await (await openStore(dir)).close();
  const { rm } = await import("node:fs/promises");
  await rm(join(dir, "vault.key"));
  await expect(openStore(dir)).rejects.toThrow(/key file .* is missing/);
  expect(existsSync(join(dir, "vault.key"))).toBe(false);
});

test("a missing data folder is created", async () => {
  const nested = join(dir, "a", "b");
  expect(sqliteStoreExists(nested)).toBe(false);
  const store = await openStore(nested);
  expect(sqliteStoreExists(nested)).toBe(true);
  await store.close();
});

test("an unusable folder causes an error and no hang, and the lock is released", async () => {
  mkdirSync(join(dir, "store", "sandpiper.db"), { recursive: true });
  const { rm } = await import("node:fs/promises");
  const vault = createVault(randomBytes(32));
  await expect(openSqliteStore({ dir, vault })).rejects.toThrow();
  await rm(join(dir, "store", "sandpiper.db"), { recursive: true });
  await (await openSqliteStore({ dir, vault })).close();
});

test("no file of the data folder contains a secret in clear text, neither while it is open nor after", async () => {
  const secret = `planted-${randomBytes(16).toString("hex")}`;
  const store = await openStore(dir);
  await store.settings.change("default", () => ({
    llm_api_key: secret,
    mcp_config: { sse_servers: [{ url: "u", api_key: secret }] },
  }));
  await store.apiKeys.create({ userId: "default", name: "first" }, secret);
  const row = {
    userId: "default",
    specId: "host",
    status: "RUNNING",
    statusDetail: null,
    incarnation: "1",
    createdAt: 1,
    spec: null,
    prepared: false,
    snapshotId: null,
    lastUsedAt: 1,
  } as const;
  await store.sandboxes.create({ ...row, id: "s1", sessionKey: secret });
  const conversation = conversationRow({ title: "control group" });
  await store.conversations.create(conversation);
  await store.events.append(conversation.id, [message("visible-text")]);
  const holders = (text: string) =>
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .filter((entry) => readFileSync(join(entry.parentPath, entry.name)).includes(text))
      .map((entry) => entry.name);
  expect(holders("visible-text")).toEqual(["sandpiper.db-wal"]);
  expect(holders(secret)).toEqual([]);
  await store.close();
  expect(holders("visible-text")).not.toEqual([]);
  expect(holders(secret)).toEqual([]);
});
