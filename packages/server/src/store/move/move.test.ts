import { randomBytes, randomUUID } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { conversationRow, message, stateUpdate, temporaryFolder } from "../../../test/support/store.ts";
import { openPostgresStore } from "../postgres/open.ts";
import { openSqliteStore } from "../sqlite/open.ts";
import { createVault, type Vault } from "../vault.ts";
import { moveToPostgres } from "./move-to-postgres.ts";
import { movedTables } from "./moved-tables.ts";
import { openMoveSource } from "./open-source.ts";

const place = "0b5f5a0e-6f0c-4b5e-9d6c-0a4e6a1d2c3b";
/**
 * A text with characters that COPY escapes, characters that PostgreSQL cannot store, and a
 * character of four bytes.
 */
const odd = "a\\b\b\f\n\r\t\v\\N \u0001\u007f ä€😀 \u0000 \\.";

let server: PostgresServer;
let vault: Vault;
let folder: ReturnType<typeof temporaryFolder>;
let url: string;

beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
beforeEach(async () => {
  vault = createVault(randomBytes(32));
  folder = temporaryFolder();
  url = await server.createDatabase();
});
afterEach(() => folder.remove());

async function move(onProgress = () => {}, key = vault) {
  const { source, close } = openMoveSource(folder.dir, { vault: key, place });
  try {
    return await moveToPostgres({ url, source, vault, onProgress });
  } finally {
    close();
  }
}

const query = <Row extends object>(sql: string) =>
  server.query<Row & Record<string, unknown>>(sql, [], new URL(url).pathname.slice(1));

/** A data folder with a conversation that has branches, a cost and odd texts. */
async function fill(): Promise<string> {
  const store = await openSqliteStore({ dir: folder.dir, vault });
  const row = conversationRow({ title: odd });
  const id = row.id;
  await store.conversations.create(row);
  const [first] = await store.events.append(id, [message(odd)]);
  const usage = { accumulated_cost: 0.1 + 0.2, max_budget_per_task: null, accumulated_token_usage: null };
  await store.events.append(id, [
    stateUpdate("stats", { usage_to_metrics: { agent: { model_name: "m", ...usage } } }),
  ]);
  await store.events.append(id, [message("left")]);
  await store.events.append(id, [message("right")], { navigate: first!.event.id! });
  await store.settings.change("default", () => ({ llm_model: "demo/plan", text: odd }));
  await store.apiKeys.create({ userId: "default", name: odd, readOnly: true }, "the key");
  await store.callbacks.create([]);
  await store.sandboxes.create({
    ...{ id: row.sandboxId, userId: "default", specId: "host", status: "PAUSED", statusDetail: null },
    ...{ incarnation: "1", sessionKey: "the session key", createdAt: 1, spec: null, prepared: true },
    ...{ snapshotId: null, lastUsedAt: 2 },
  });
  await store.close();
  return id;
}

test("the copy has every column of PostgreSQL's tables except those that only several servers use", async () => {
  await (await openPostgresStore({ url, vault })).close();
  const columns = await query<{ table: string; column: string }>(
    `SELECT table_name AS table, column_name AS column FROM information_schema.columns
     WHERE table_schema = current_schema() AND table_name NOT IN ('installation', 'nodes', 'schema_migrations', 'slots')
       AND NOT (table_name IN ('conversations', 'sandboxes', 'start_tasks') AND column_name IN ('owner', 'epoch'))`,
  );
  const moved = movedTables.flatMap(({ name, columns: own }) =>
    Object.keys(own).map((column) => ({ table: name, column })),
  );
  const sorted = (rows: { table: string; column: string }[]) =>
    rows.map(({ table, column }) => `${table}.${column}`).sort();
  expect(sorted(moved)).toEqual(sorted(columns));
});

test("a copied store gives the same answers, and continues its numbers, times and costs", async () => {
  const id = await fill();
  const before = await openSqliteStore({ dir: folder.dir, vault });
  const read = async (
    store: Pick<typeof before, "conversations" | "events" | "settings" | "apiKeys" | "spending">,
  ) => ({
    conversation: await store.conversations.get(id),
    log: await store.events.read(id, 0, 100),
    branch: await store.events.branch(id),
    settings: await store.settings.get("default"),
    keys: await store.apiKeys.list(),
    spent: await store.spending.getSpent("default", new Date().toISOString().slice(0, 10)),
  });
  const expected = await read(before);
  await before.close();
  expect(expected.spent).toBe(0.1 + 0.2);

  expect(await move()).toMatchObject({ wasThere: false, logs: 1 });
  const store = await openPostgresStore({ url, vault });
  try {
    const storable = odd.replace("\0", "\ufffd");
    expect(await read(store)).toEqual({
      ...expected,
      conversation: { ...expected.conversation, title: storable },
      keys: [{ ...expected.keys[0], name: storable }],
    });
    expect(await store.sandboxes.get(expected.conversation!.sandboxId)).toMatchObject({
      ...{ sessionKey: "the session key", prepared: true },
    });
    expect(await query("SELECT place, owner FROM sandboxes")).toEqual([{ place, owner: null }]);
    const [next] = await store.events.append(id, [message("next")]);
    expect(next!.seq).toBe(expected.log.length + 1);
    expect((next!.event as { parent_id?: string }).parent_id).toBe(expected.log.at(-1)!.event.id);
    await store.conversations.create(conversationRow());
    // The triggers are on again, because they count the new bytes.
    const [{ bytes }] = (await query<{ bytes: string }>("SELECT sum(bytes) AS bytes FROM stored_bytes")) as [
      { bytes: string },
    ];
    const [{ all }] = (await query<{ all: string }>(
      "SELECT sum(stored_bytes + octet_length(config)) AS all FROM conversations",
    )) as [{ all: string }];
    expect(bytes).toBe(all);
  } finally {
    await store.close();
  }
});

test("a repeated copy changes nothing and finds a row that has changed, by its conversation", async () => {
  const id = await fill();
  await move();
  expect(await move()).toMatchObject({ wasThere: true, logs: 1 });
  await query("UPDATE events SET json = replace(json, 'left', 'lift') WHERE seq = 3");
  await expect(move()).rejects.toThrow(`the log of conversation ${id}: the digests differ`);
  await query("UPDATE events SET json = replace(json, 'lift', 'left') WHERE seq = 3");
  await query("UPDATE spending SET usd = usd + 1e-16");
  await expect(move()).rejects.toThrow("spending: the digests differ");
  await query("DELETE FROM spending");
  await expect(move()).rejects.toThrow("spending: 0 rows there, 1 in the data folder");
});

test("a database that another process changes during the copy is refused or waits", async () => {
  await fill();
  let writing: Promise<unknown> | undefined;
  await move(() => {
    writing ??= query("INSERT INTO settings VALUES ('stranger', '')");
  });
  await writing;
  expect(await query("SELECT user_id FROM settings ORDER BY 1")).toEqual([
    { user_id: "default" },
    { user_id: "stranger" },
  ]);
});

test("databases of other programs, other data, another key or a running server are refused", async () => {
  await fill();
  await query("CREATE TABLE theirs (a int)");
  await expect(move()).rejects.toThrow("tables of another program (theirs)");
  await query("DROP TABLE theirs");
  await expect(move(() => {}, createVault(randomBytes(32)))).rejects.toThrow("belongs to other data");

  const other = await openPostgresStore({ url, vault });
  await other.nodes!.join(
    { incarnation: randomUUID(), url: "http://a", place: null, version: "1", isDraining: false },
    60_000,
  );
  await expect(move()).rejects.toThrow("A Sandpiper server works on the database");
  await query("DELETE FROM nodes");
  await other.settings.change("ann", () => ({}));
  await other.close();
  await expect(move()).rejects.toThrow("holds other data (conversations: 0 rows there");
  expect(await query("SELECT user_id FROM settings")).toEqual([{ user_id: "ann" }]);

  url = await server.createDatabase();
  await (await openPostgresStore({ url, vault: createVault(randomBytes(32)) })).close();
  await expect(move()).rejects.toThrow("vault key does not belong");
});

test("the folder stays locked while it is copied, also for commands beside a server", async () => {
  await fill();
  let checked = false;
  await move(() => {
    if (checked) return;
    checked = true;
    expect(() => openMoveSource(folder.dir, { vault, place })).toThrow("in use");
    const beside = new DatabaseSync(join(folder.dir, "store", "sandpiper.db"), { timeout: 0 });
    expect(() => beside.exec("DELETE FROM api_keys")).toThrow("locked");
    beside.close();
  });
  expect(checked).toBe(true);
});

test("a database that goes away during the copy keeps nothing of it", async () => {
  await fill();
  let killing: Promise<void> | undefined;
  const failed = await move(() => {
    killing ??= server.kill();
  }).catch((error: unknown) => error);
  await killing;
  expect(String(failed)).toMatch(/run the command again/);
  await server.start();
  expect(await query("SELECT count(*)::int AS count FROM conversations")).toEqual([{ count: 0 }]);
  expect(await move()).toMatchObject({ wasThere: false });
});
