import type { StorageQuotas } from "../../src/config/storage-quotas.ts";
import type { Store } from "../../src/store/store.ts";

export interface OpenOptions {
  /** Milliseconds since the epoch. */
  clock?: () => number;
  quotas?: StorageQuotas;
}

/** An engine that the suite runs over. */
export interface StoreEngine {
  name: string;
  /** Makes a new place for a store: a folder, or a database and its address. */
  newPlace(): Promise<{ place: string; remove(): Promise<void> }>;
  openStore(place: string, options?: OpenOptions): Promise<Store>;
  /** A store in a place of its own; `close` removes the place. */
  createTestStore(options?: OpenOptions): Promise<{ store: Store; place: string; close(): Promise<void> }>;
  /** Runs a statement beside the store. */
  query(place: string, sql: string): Promise<Record<string, unknown>[]>;
  /** Returns the SQL of a text with this many bytes. */
  textOf(bytes: number): string;
}

/** Creates a store of the engine in a new place. */
export function createTestStoreIn(
  engine: Pick<StoreEngine, "newPlace" | "openStore">,
): StoreEngine["createTestStore"] {
  return async (options) => {
    const { place, remove } = await engine.newPlace();
    const store = await engine.openStore(place, options);
    return {
      store,
      place,
      async close() {
        await store.close();
        await remove();
      },
    };
  };
}
