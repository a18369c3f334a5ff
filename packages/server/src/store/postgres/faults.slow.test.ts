import { setTimeout as wait } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
import { postgresEngine } from "../../../test/store-suite/postgres-engine.ts";
import { type PostgresServer, startPostgres } from "../../../test/support/postgres.ts";
import { conversationRow, message } from "../../../test/support/store.ts";
import type { Store } from "../store.ts";

/** The database dies or cuts connections while servers append. */

let server: PostgresServer;
beforeEach(async () => {
  server = await startPostgres();
});
afterEach(() => server.remove());
const engine = postgresEngine(() => server);

/** Appends to conversations until the test stops it, and notes the acknowledged appends. */
function startLoad(store: Store, ids: readonly string[]) {
  const acknowledged = new Map<string, string[]>(ids.map((id) => [id, []]));
  const refused = new Map<string, number>();
  let isStopped = false;
  const load = Promise.all(
    ids.map(async (id) => {
      for (let index = 0; !isStopped; index++) {
        try {
          const stored = await store.events.append(id, [message(`${index}`), message(`${index} b`)]);
          acknowledged.get(id)!.push(...stored.map(({ json }) => json));
        } catch (error) {
          const { code = String(error) } = error as { code?: string };
          refused.set(code, (refused.get(code) ?? 0) + 1);
        }
      }
    }),
  );
  return {
    acknowledged,
    refused,
    count: () => [...acknowledged.values()].reduce((sum, { length }) => sum + length, 0),
    async stop() {
      isStopped = true;
      await load;
    },
  };
}

async function checkLogs(store: Store, acknowledged: ReadonlyMap<string, string[]>): Promise<void> {
  for (const [id, texts] of acknowledged) {
    const stored = await store.events.read(id, 0, 100_000);
    expect(stored.map(({ seq }) => seq)).toEqual(stored.map((_, index) => index + 1));
    const lines = stored.map(({ json }) => json);
    expect(new Set(lines).size).toBe(lines.length);
    expect(texts.filter((text) => !lines.includes(text))).toEqual([]);
    expect(new Set(stored.map(({ event }) => event.id)).size).toBe(lines.length);
    expect(await store.events.lastSeq(id)).toBe(stored.length);
  }
}

test("a killed database loses nothing that was acknowledged, and the store goes on by itself", async () => {
  const { place } = await engine.newPlace();
  const store = await engine.openStore(place);
  const rows = Array.from({ length: 8 }, () => conversationRow());
  for (const row of rows) await store.conversations.create(row);
  const seen = new Map<string, number[]>(rows.map(({ id }) => [id, []]));
  for (const { id } of rows)
    store.events.follow(id, (records) => seen.get(id)!.push(...records.map(({ seq }) => seq)));
  const load = startLoad(
    store,
    rows.map(({ id }) => id),
  );
  for (let round = 1; round <= 4; round++) {
    const before = load.count();
    await expect.poll(load.count).toBeGreaterThan(before + 100);
    await server.kill();
    await wait(300);
    await server.start();
  }
  const before = load.count();
  await expect.poll(load.count).toBeGreaterThan(before + 100);
  await load.stop();
  await checkLogs(store, load.acknowledged);
  // The store waits for a database that is away for a short time.
  expect([...load.refused]).toEqual([]);
  for (const { id } of rows) {
    const last = await store.events.lastSeq(id);
    await expect.poll(() => seen.get(id)!.length).toBe(last);
    expect(seen.get(id)).toEqual(Array.from({ length: last }, (_, index) => index + 1));
  }
  await store.close();
});

test("connections that are cut again and again lose and double nothing on two servers", async () => {
  const { place } = await engine.newPlace();
  const stores = await Promise.all([engine.openStore(place), engine.openStore(place)]);
  const rows = Array.from({ length: 5 }, () => conversationRow());
  for (const row of rows) await stores[0]!.conversations.create(row);
  const ids = rows.map(({ id }) => id);
  const loads = stores.map((store) => startLoad(store, ids));
  for (let round = 1; round <= 20; round++) {
    const before = loads[0]!.count();
    await expect.poll(loads[0]!.count).toBeGreaterThan(before + 20);
    await server.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sandpiper'",
    );
  }
  for (const load of loads) await load.stop();
  for (const load of loads) await checkLogs(stores[0]!, load.acknowledged);
  expect(loads.map(({ refused }) => [...refused])).toEqual([[], []]);
  for (const store of stores) await store.close();
});

test("a database that stays away refuses reads and writes with 503 and Retry-After", async () => {
  const { place } = await engine.newPlace();
  const store = await engine.openStore(place);
  const row = conversationRow();
  await store.conversations.create(row);
  await server.kill();
  const away = { code: "DatabaseUnavailable", status: 503, retryAfter: expect.any(Number) };
  await Promise.all([
    expect(store.conversations.get(row.id)).rejects.toMatchObject(away),
    expect(store.events.append(row.id, [message("text")])).rejects.toMatchObject(away),
    expect(store.conversations.update(row.id, { title: "new" })).rejects.toMatchObject(away),
  ]);
  await server.start();
  await expect
    .poll(() => store.conversations.get(row.id).catch(() => undefined))
    .toMatchObject({ id: row.id });
  expect(await store.events.lastSeq(row.id)).toBe(0);
  await store.close();
});
