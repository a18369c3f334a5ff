import { randomBytes } from "node:crypto";
import { newId } from "@sandpiper/wire";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openLink } from "../../../test/support/nodes/link.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { conversationRow, message } from "../../../test/support/store.ts";
import { createVault } from "../vault.ts";
import { openPostgresStore } from "./open.ts";

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());

const vault = createVault(randomBytes(32));
const open = (url: string) => openPostgresStore({ url, vault });
const nameOf = (url: string) => new URL(url).pathname.slice(1);

/** Expects a refusal that names no password. */
async function refused(url: string, sentence: string | RegExp): Promise<void> {
  const error = await open(url).then(
    async (store) => store.close(),
    (reason: Error) => reason,
  );
  expect(error).toMatchObject({ code: "ConfigInvalid", message: expect.stringMatching(sentence) });
  expect((error as Error).message).not.toContain(server.password);
}

test("a database that cannot be used is refused with what to do", async () => {
  const url = await server.createDatabase();
  const change = (edit: (url: URL) => void) => {
    const changed = new URL(url);
    edit(changed);
    return changed.href;
  };
  await refused(
    change((one) => (one.password = "wrong")),
    /refused the login \(password authentication failed.*check user, password and database name/,
  );
  await refused(
    change((one) => (one.pathname = "/absent")),
    /127\.0\.0\.1:\d+\/absent refused the login \(database "absent" does not exist\)/,
  );
  await refused(
    change((one) => (one.port = "1")),
    /127\.0\.0\.1:1\/\w+ cannot be reached .*check SANDPIPER_DATABASE_URL and that PostgreSQL is running/,
  );
  await refused(
    change((one) => (one.hostname = "no.such.host.invalid")),
    /no\.such\.host\.invalid:\d+\/\w+ cannot be reached/,
  );
  await server.query(
    "CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0",
  );
  await refused(server.url("latin"), /has the encoding LATIN1: create one with ENCODING 'UTF8'/);
  const foreign = await server.createDatabase();
  await server.query("CREATE TABLE bills (id int)", [], nameOf(foreign));
  await refused(foreign, /has tables of another program \(bills\): create an empty database/);
  const names = await server.query(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'",
    [],
    nameOf(foreign),
  );
  expect(names).toEqual([{ name: "bills" }]);
});

test("a user without the right to create tables is told so", async () => {
  const url = new URL(await server.createDatabase());
  await server.query("CREATE ROLE guest LOGIN PASSWORD 'guest'");
  url.username = "guest";
  url.password = "guest";
  await refused(url.href, /may not create or change tables in .*make it the owner of the database/);
});

test("data of another vault key is refused and not changed", async () => {
  const url = await server.createDatabase();
  const store = await open(url);
  await store.settings.change("default", () => ({ n: 1 }));
  await store.close();
  await expect(openPostgresStore({ url, vault: createVault(randomBytes(32)) })).rejects.toMatchObject({
    code: "ConfigInvalid",
    message: expect.stringContaining("vault key does not belong to the data in the database"),
  });
  const again = await open(url);
  expect(await again.settings.get("default")).toEqual({ n: 1 });
  await again.close();
});

test("a schema of a newer version is refused, unless its changes are marked as compatible", async () => {
  const url = await server.createDatabase();
  await (await open(url)).close();
  const insert = "INSERT INTO schema_migrations (version, name, compatible) VALUES ($1, 'later', $2)";
  await server.query(insert, [50, true], nameOf(url));
  await (await open(url)).close();
  await server.query(insert, [51, false], nameOf(url));
  await refused(url, /changed by a newer version of Sandpiper \(schema 51, this one knows \d+\)/);
});

test("servers that start at the same moment create one schema and one installation", async () => {
  const url = await server.createDatabase();
  const stores = await Promise.all(Array.from({ length: 6 }, () => open(url)));
  const rows = await server.query("SELECT id FROM installation", [], nameOf(url));
  expect(rows).toHaveLength(1);
  for (const store of stores) await store.close();
});

test("any text is stored: zero characters and halves of characters are replaced where a column has it", async () => {
  const url = await server.createDatabase();
  const store = await open(url);
  const row = conversationRow({ title: "zero \0 half \ud800 end" });
  row.config.tags = { zero: "\0", half: "\udc00" };
  row.config.selectedRepository = "a/\0";
  await store.conversations.create(row);
  const found = (await store.conversations.get(row.id))!;
  expect(found.title).toBe("zero \ufffd half \ufffd end");
  expect(found.config).toEqual(row.config);
  const records = [message('zero \0 half \ud800 " \\ \u0007 \u2028 😀'), message("b", 'an id \0 " 😀')];
  const stored = await store.events.append(row.id, records);
  expect(await store.events.read(row.id, 0, 10)).toEqual(stored);
  expect((await store.conversations.search({ userId: "default\0" }, { limit: 5 })).items).toEqual([]);
  const filter = { userId: "default", titleContains: "ZERO" };
  expect(await store.conversations.count(filter)).toBe(1);
  await store.close();
});

test("a statement whose connection falls silent ends, and another connection goes on", async () => {
  const url = await server.createDatabase();
  const link = await openLink(server.port);
  const store = await openPostgresStore({ url: link.url(url), vault, answerMs: 500, patienceMs: 100 });
  const row = conversationRow();
  await store.conversations.create(row);
  await store.events.append(row.id, [message("one")]);
  link.silence();
  expect(await store.conversations.get(row.id)).toMatchObject({ id: row.id });
  link.silence();
  // The queue looks whether the first attempt has stored the record.
  await store.events.append(row.id, [message("two")]);
  expect(await store.events.lastSeq(row.id)).toBe(2);
  link.silence();
  // Nobody knows whether this write was stored.
  await expect(store.conversations.update(row.id, { title: "new" })).rejects.toMatchObject({
    code: "DatabaseUnavailable",
    status: 503,
  });
  await store.conversations.update(row.id, { title: "newer" });
  expect(await store.conversations.get(row.id)).toMatchObject({ title: "newer" });
  await link.close();
  await store.close();
});

test("the pool is bounded, and what waits too long for a connection is refused", async () => {
  const url = await server.createDatabase();
  const store = await openPostgresStore({ url, vault, maxConnections: 2, statementMs: 2_000 });
  const row = conversationRow();
  await store.conversations.create(row);
  await Promise.all(Array.from({ length: 200 }, () => store.conversations.get(row.id)));
  const connections = await server.query<{ count: string }>(
    "SELECT count(*) FROM pg_stat_activity WHERE datname = $1 AND application_name = 'sandpiper'",
    [nameOf(url)],
  );
  expect(Number(connections[0]!.count)).toBeLessThanOrEqual(3);
  // Another program holds a lock, so the store gives the statement up.
  const lock = server.query("BEGIN; LOCK TABLE conversations; SELECT pg_sleep(4); COMMIT", [], nameOf(url));
  await expect.poll(() => store.conversations.get(row.id).catch((error) => error.code)).toBe("StorageBusy");
  await lock;
  expect(await store.conversations.get(row.id)).toMatchObject({ id: row.id });
  await store.close();
});

test("older servers start conversations while the database gets the index of open starts", async () => {
  const url = await server.createDatabase();
  const older = await open(url);
  await server.query("DROP INDEX start_tasks_open_once", [], nameOf(url));
  await server.query("DELETE FROM schema_migrations WHERE version > 1", [], nameOf(url));
  let isMigrated = false;
  const started: string[] = [];
  const start = async () => {
    while (!isMigrated) {
      const id = newId();
      const state = { status: "WORKING", detail: null, sandboxId: null, request: {} } as const;
      const times = { createdAt: 1, updatedAt: 1 };
      await older.startTasks.create({ id, userId: id, conversationId: id, ...state, ...times });
      await older.startTasks.update(id, { status: "READY" });
      started.push(id);
    }
  };
  const starts = Array.from({ length: 5 }, start);
  const newer = await open(url);
  isMigrated = true;
  await Promise.all(starts);
  expect(await Promise.all(started.map(async (id) => (await newer.startTasks.get(id))?.status))).toEqual(
    started.map(() => "READY"),
  );
  for (const store of [older, newer]) await store.close();
});

test("a server goes on reading after a newer one has added columns", async () => {
  const url = await server.createDatabase();
  const store = await open(url);
  const row = conversationRow();
  await store.conversations.create(row);
  await store.events.append(row.id, [message("text")]);
  const read = async () => [
    (await store.conversations.get(row.id))!.title,
    (await store.conversations.listRunning("all")).length,
    (await store.events.read(row.id, 0, 10)).length,
  ];
  const before = await Promise.all([1, 2, 3, 4].map(read));
  for (const table of ["conversations", "events"])
    await server.query(`ALTER TABLE ${table} ADD COLUMN later text NOT NULL DEFAULT ''`, [], nameOf(url));
  expect(await Promise.all([1, 2, 3, 4].map(read))).toEqual(before);
  await store.close();
});
