import { randomBytes } from "node:crypto";
import { openPostgresStore } from "../../src/store/postgres/open.ts";
import { createVault } from "../../src/store/vault.ts";
import { databaseOf, type PostgresServer } from "../support/postgres.ts";
import { createTestStoreIn, type StoreEngine } from "./engine.ts";

/**
 * The engine on a PostgreSQL server that a test has started. Each store is a database of that
 * server: a copy of a migrated database, because a migration takes longer than most tests.
 */
export function postgresEngine(server: () => PostgresServer): StoreEngine {
  const vault = createVault(randomBytes(32));
  /** Templates by server, because a test may start another server. */
  const templates = new Map<PostgresServer, Promise<string>>();
  const parts: Omit<StoreEngine, "createTestStore"> = {
    name: "PostgreSQL",
    async newPlace() {
      const template = templates.get(server()) ?? makeTemplate();
      templates.set(server(), template);
      const place = await server().createDatabase(await template);
      return { place, remove: () => server().dropDatabase(place) };
    },
    openStore: (url, options) => openPostgresStore({ url, vault, ...options }),
    query: (place, sql) => server().query(sql, [], databaseOf(place)),
    textOf: (bytes) => `repeat('x', ${bytes})`,
  };
  async function makeTemplate(): Promise<string> {
    const url = await server().createDatabase();
    await (await openPostgresStore({ url, vault })).close();
    return url;
  }
  return { ...parts, createTestStore: createTestStoreIn(parts) };
}
