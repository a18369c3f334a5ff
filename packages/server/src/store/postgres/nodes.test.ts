import type { LogRecord } from "@sandpiper/agent/loop/log-record";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import pg from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { startPostgresProxy } from "../../../test/support/postgres-proxy.ts";
import { conversationRow, message } from "../../../test/support/store.ts";
import type { Store } from "../store.ts";
import { channel, decodeNotice } from "./notice.ts";

/** Several stores on one database, as those of several servers. */

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
});
afterAll(() => server.remove());
const engine = postgresEngine(() => server);

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

async function appendMany(store: Store, id: string, count: number): Promise<LogRecord[]> {
  const stored: LogRecord[] = [];
  for (let index = 0; index < count; index++)
    stored.push(...(await store.events.append(id, [message(`text ${index}`), message("more")])));
  return stored;
}

test("two servers append to one conversation: one order, which followers of both see without gaps", async () => {
  const { place, remove } = await engine.newPlace();
  const [one, other] = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  const row = conversationRow();
  await one.conversations.create(row);
  await one.events.append(row.id, [message("before")]);
  const seen: number[][] = [[], []];
  const own: string[][] = [[], []];
  for (const [index, store] of [one, other].entries()) {
    store.events.follow(row.id, (records) => seen[index]!.push(...records.map(({ seq }) => seq)));
    store.events.followAll((_id, records) => own[index]!.push(...records.map(({ event }) => event.id)));
  }
  const lists = await Promise.all([one, other].map((store) => appendMany(store, row.id, 50)));
  const after = numbers(201).slice(1);
  await expect.poll(() => seen.map((list) => list.length)).toEqual([200, 200]);
  expect(seen).toEqual([after, after]);
  expect(own).toEqual(lists.map((list) => list.map(({ event }) => event.id)));
  const read = await one.events.read(row.id, 1, 300);
  expect(read.map(({ seq }) => seq)).toEqual(after);
  expect(new Set(read.map(({ json }) => json))).toEqual(new Set(lists.flat().map(({ json }) => json)));
  for (const store of [one, other]) await store.close();
  await remove();
});

test("a follower on another server sees each record once and in order when notifications are lost", async () => {
  const { place, remove } = await engine.newPlace();
  const proxy = await startPostgresProxy(server.port);
  proxy.dropsNotifications = true;
  const one = await engine.openStore(place);
  const far = await engine.openStore(proxy.url(place));
  const row = conversationRow();
  await one.conversations.create(row);
  const seen: number[] = [];
  far.events.follow(row.id, (records) => seen.push(...records.map(({ seq }) => seq)));
  await far.events.lastSeq(row.id);
  await appendMany(one, row.id, 20);
  await expect.poll(() => seen).toEqual(numbers(40));
  // Without notifications a server caches nothing, so it sees the change of another server at once.
  await one.settings.change("default", () => ({ n: 1 }));
  expect(await far.settings.get("default")).toEqual({ n: 1 });
  await one.settings.change("default", () => ({ n: 2 }));
  expect(await far.settings.get("default")).toEqual({ n: 2 });
  expect(far.version()).not.toBe(far.version());
  for (const store of [one, far]) await store.close();
  await proxy.close();
  await remove();
});

test("a change of a document ends when the other servers have its notice", async () => {
  const { place, remove } = await engine.newPlace();
  const store = await engine.openStore(place);
  const client = new pg.Client({ connectionString: place });
  await client.connect();
  await client.query(`LISTEN ${channel}`);
  let notices = 0;
  client.on("notification", ({ payload = "" }) => {
    notices += decodeNotice(payload)?.documents?.length ?? 0;
  });
  for (const n of numbers(30)) {
    await store.settings.change("default", () => ({ n }));
    // The database sends a listener all earlier notifications before the answer to its statement.
    await client.query("SELECT 1");
    expect(notices).toBe(n);
  }
  await client.end();
  await store.close();
  await remove();
});

test("a server caches lists only while it is alone", async () => {
  const { place, remove } = await engine.newPlace();
  const one = await engine.openStore(place);
  const isCaching = () => {
    const version = one.version();
    return one.version() === version;
  };
  // The first probe has arrived.
  await expect.poll(isCaching).toBe(true);
  const other = await engine.openStore(place);
  await expect.poll(isCaching).toBe(false);
  for (const store of [one, other]) await store.close();
  await remove();
});

test("a notification ends what other servers have cached", async () => {
  const { place, remove } = await engine.newPlace();
  const [one, other] = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  await one.settings.change("default", () => ({ n: 1 }));
  // The other server caches once its first probe has arrived.
  const isCached = async () => {
    const found = await other.settings.get("default");
    return (await other.settings.get("default")) === found;
  };
  await expect.poll(isCached).toBe(true);
  expect(await other.settings.get("default")).toEqual({ n: 1 });
  await one.settings.change("default", () => ({ n: 2 }));
  await expect.poll(() => other.settings.get("default"), { timeout: 2_000 }).toEqual({ n: 2 });
  for (const store of [one, other]) await store.close();
  await remove();
});

test("a user keeps a limited number of sandboxes and snapshots, whichever server creates them", async () => {
  const { place, remove } = await engine.newPlace();
  const stores = await Promise.all([1, 2, 3].map(() => engine.openStore(place)));
  const sandbox = (id: string): SandboxRow => ({
    ...{ id, userId: "default", specId: "host", status: "PAUSED", statusDetail: null, incarnation: "1" },
    ...{ sessionKey: "key", createdAt: 1, spec: null, prepared: false, snapshotId: null, lastUsedAt: 1 },
  });
  const attempts = numbers(30).map((number) => [stores[number % 3]!, `id-${number}`] as const);
  const created = await Promise.allSettled([
    ...attempts.map(([store, id]) => store.sandboxes.create(sandbox(id), 10)),
    ...attempts.map(([store, id]) =>
      store.snapshots.create({ id, userId: "default", sandboxId: "s", spec: null, createdAt: 1 }, 10),
    ),
  ]);
  const codes = created.map((one) => (one.status === "rejected" ? one.reason.code : "created"));
  const count = (code: string) => codes.filter((one) => one === code).length;
  expect([count("created"), count("TooManySandboxes"), count("TooManySnapshots")]).toEqual([20, 20, 20]);
  expect(await stores[0]!.sandboxes.all()).toHaveLength(10);
  expect(await stores[0]!.snapshots.ids()).toHaveLength(10);
  for (const store of stores) await store.close();
  await remove();
});

test("secrets that are stored while their conversation is removed do not stay", async () => {
  const { place, remove } = await engine.newPlace();
  const store = await engine.openStore(place);
  const row = conversationRow();
  const { id: conversationId, userId, sandboxId } = row;
  await store.conversations.create(row);
  await store.pendingMessages.create({ id: "1", userId, conversationId, content: [], createdAt: 1 });
  const blocker = new pg.Client({ connectionString: place });
  await blocker.connect();
  await blocker.query("BEGIN");
  await blocker.query("SELECT * FROM pending_messages FOR UPDATE");
  const removal = store.conversations.remove(conversationId);
  await expect
    .poll(() => engine.query(place, "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    .toHaveLength(1);
  await store.conversationSecrets.change(conversationId, () => ({
    ...{ conversationId, userId, sandboxId },
    values: { LATE: "value" },
  }));
  await blocker.query("COMMIT");
  expect(await removal).toBe(true);
  expect(await store.conversationSecrets.get(conversationId)).toBeUndefined();
  await blocker.end();
  await store.close();
  await remove();
});

test("a sandbox has a limited number of reported conversations, whichever server stores them", async () => {
  const { place, remove } = await engine.newPlace();
  const stores = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  const created = await Promise.allSettled(
    numbers(12).map((number) =>
      stores[number % 2]!.conversations.create({
        ...conversationRow({ sandboxId: "s" }),
        limit: { maxInSandbox: 5 },
      }),
    ),
  );
  const refusals = created.flatMap((one) => (one.status === "rejected" ? [one.reason.code] : []));
  expect(refusals).toEqual(Array(7).fill("ConversationExternal"));
  expect(await stores[0]!.conversations.listBySandbox("s")).toHaveLength(5);
  for (const store of stores) await store.close();
  await remove();
});

test("an append whose answer is lost is stored once and resolves", async () => {
  const { place, remove } = await engine.newPlace();
  const proxy = await startPostgresProxy(server.port);
  const store = await engine.openStore(proxy.url(place));
  const row = conversationRow();
  await store.conversations.create(row);
  const seen: number[] = [];
  store.events.follow(row.id, (records) => seen.push(...records.map(({ seq }) => seq)));
  await store.events.append(row.id, [message("before")]);
  for (let attempt = 1; attempt <= 5; attempt++) {
    proxy.cutsAnswerTo = `the lost text ${attempt}`;
    const stored = await store.events.append(row.id, [
      message(`the lost text ${attempt}`),
      message("second"),
    ]);
    expect(proxy.cuts).toBe(attempt);
    expect(await store.events.read(row.id, 2 * attempt - 1, 10)).toEqual(stored);
  }
  await expect.poll(() => seen).toEqual(numbers(11));
  await store.close();
  await proxy.close();
  await remove();
});

test("a run appends only while it owns its conversation and its server's lease lasts", async () => {
  const { store, place, close } = await engine.createTestStore();
  const row = conversationRow();
  await store.conversations.create(row);
  const lease = (seconds: number) =>
    engine.query(
      place,
      `INSERT INTO nodes (incarnation, url, version, expires_at)
       VALUES ('n1', '', '', clock_timestamp() + interval '${seconds} s')
       ON CONFLICT (incarnation) DO UPDATE SET expires_at = excluded.expires_at`,
    );
  const append = (epoch: number) =>
    store.events.append(row.id, [message("text")], { owner: { node: "n1", epoch } });
  const lost = { code: "OwnershipLost" };
  await expect(append(1)).rejects.toMatchObject(lost);
  await lease(60);
  await engine.query(place, `UPDATE conversations SET owner = 'n1', epoch = 3 WHERE id = '${row.id}'`);
  await append(3);
  await expect(append(2)).rejects.toMatchObject(lost);
  await lease(-1);
  await expect(append(3)).rejects.toMatchObject(lost);
  // A command needs no ownership.
  await store.events.append(row.id, [message("a command")]);
  expect(await store.events.lastSeq(row.id)).toBe(2);
  await close();
});
