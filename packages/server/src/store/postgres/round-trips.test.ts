import { randomBytes, randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { type PostgresProxy, startPostgresProxy } from "../../../test/support/postgres-proxy.ts";
import { conversationRow } from "../../../test/support/store.ts";
import { createRow } from "../../callbacks/rows.ts";
import { createSqlStores } from "../sql/stores.ts";
import { createVault } from "../vault.ts";
import { Database } from "./database.ts";
import { createQueryBuilder, postgresDialect } from "./dialect.ts";
import { PostgresReader } from "./reader.ts";
import { PostgresWriter } from "./writer.ts";

/** Each write of a store is one round trip to the database. */

let server: PostgresServer;
let proxy: PostgresProxy;
let database: Database;
let stores: ReturnType<typeof createSqlStores>;
let remove: () => Promise<void>;

beforeAll(async () => {
  server = await startPostgres();
  const made = await postgresEngine(() => server).newPlace();
  remove = made.remove;
  proxy = await startPostgresProxy(server.port);
  // One connection: the test counts what goes over it.
  database = new Database({ url: proxy.url(made.place), maxConnections: 1, answerMs: 40_000 });
  const quotas = { conversationBytes: 0, userBytes: 100_000 };
  stores = createSqlStores({
    reader: new PostgresReader(database),
    writer: new PostgresWriter(database, quotas, () => {}),
    vault: createVault(randomBytes(32)),
    clock: Date.now,
    build: createQueryBuilder(),
    dialect: postgresDialect,
  });
  // The connection is open before the test counts.
  await stores.snapshots.count({ userId: "nobody" });
});
afterAll(async () => {
  await database.close();
  await proxy.close();
  await remove();
  await server.remove();
});

async function countRoundTrips(write: () => Promise<unknown>): Promise<number> {
  const before = proxy.roundTrips;
  await write();
  return proxy.roundTrips - before;
}

test("a snapshot is counted and added in one round trip, and refused in one", async () => {
  const snapshot = () => ({ id: randomUUID(), userId: "ann", sandboxId: "s", spec: {}, createdAt: 1 });
  const add = () => stores.snapshots.create(snapshot() as never, 2);
  expect([await countRoundTrips(add), await countRoundTrips(add)]).toEqual([1, 1]);
  const refused = () => expect(add()).rejects.toMatchObject({ status: 409 });
  expect(await countRoundTrips(refused)).toBe(1);
  expect(await stores.snapshots.count({ userId: "ann" })).toBe(2);
});

test("a start is stored with its secrets and callbacks in one round trip", async () => {
  const [id, conversationId, sandboxId] = [randomUUID(), randomUUID(), randomUUID()];
  const hook = { kind: "WebhookCallbackProcessor", url: "https://a.test", kinds: null } as const;
  const state = { status: "WORKING", detail: null, request: {}, createdAt: 1, updatedAt: 1 } as const;
  const create = () =>
    stores.startTasks.create(
      { id, conversationId, sandboxId, userId: "ann", ...state },
      {
        secrets: { conversationId, userId: "ann", sandboxId, values: { KEY: "value" } },
        callbacks: [createRow("ann", conversationId, hook)],
      },
    );
  expect(await countRoundTrips(create)).toBe(1);
  expect((await stores.conversationSecrets.get(conversationId))?.values).toEqual({ KEY: "value" });
});

test("a conversation that exceeds the user's storage is refused in one round trip", async () => {
  const create = (title: string) => stores.conversations.create(conversationRow({ userId: "bob", title }));
  expect(await countRoundTrips(() => create("short"))).toBe(1);
  const refused = () => expect(create("x".repeat(200_000))).rejects.toMatchObject({ status: 507 });
  expect(await countRoundTrips(refused)).toBe(1);
  expect(await stores.conversations.count({ userId: "bob" })).toBe(1);
});
