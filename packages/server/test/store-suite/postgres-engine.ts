import { randomBytes } from "node:crypto";
import { openPostgresStore } from "../../src/store/postgres/open.ts";
import { createVault } from "../../src/store/vault.ts";
import type { PostgresServer } from "../support/postgres.ts";
import { createTestStoreIn, type StoreEngine } from "./engine.ts";

/** The engine on a server that a test started; stores are databases of it. */
export function postgresEngine(server: () => PostgresServer): StoreEngine {
  const vault = createVault(randomBytes(32));
  const parts: Omit<StoreEngine, "createTestStore"> = {
    name: "PostgreSQL",
    async newPlace() {
      const place = await server().createDatabase();
      return { place, remove: () => server().dropDatabase(place) };
    },
    openStore: (url, options) => openPostgresStore({ url, vault, ...options }),
    query: (place, sql) => server().query(sql, [], databaseOf(place)),
    textOf: (bytes) => `repeat('x', ${bytes})`,
  };
  return { ...parts, createTestStore: createTestStoreIn(parts) };
}

function databaseOf(url: string): string {
  return new URL(url).pathname.slice(1);
}
