import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "../../src/store/sqlite/open.ts";
import { createVault } from "../../src/store/vault.ts";
import { temporaryFolder } from "../support/store.ts";
import { createTestStoreIn, type StoreEngine } from "./engine.ts";

const vault = createVault(randomBytes(32));

const parts: Omit<StoreEngine, "createTestStore"> = {
  name: "SQLite",
  async newPlace() {
    const { dir, remove } = temporaryFolder();
    return { place: dir, remove: async () => remove() };
  },
  openStore: (dir, options) => openSqliteStore({ dir, vault, ...options }),
  async query(dir, sql) {
    const database = new DatabaseSync(join(dir, "store", "sandpiper.db"), { timeout: 5_000 });
    try {
      return database.prepare(sql).all();
    } finally {
      database.close();
    }
  },
  textOf: (bytes) => `hex(zeroblob(${bytes / 2}))`,
};

export const sqliteEngine: StoreEngine = { ...parts, createTestStore: createTestStoreIn(parts) };
