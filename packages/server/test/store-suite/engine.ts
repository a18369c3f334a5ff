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
  /** A new place for a store: a folder, or the address of a database. */
  newPlace(): Promise<{ place: string; remove(): Promise<void> }>;
  openStore(place: string, options?: OpenOptions): Promise<Store>;
  /** A store in a place of its own, which `close` removes. */
  createTestStore(options?: OpenOptions): Promise<{ store: Store; place: string; close(): Promise<void> }>;
  /** Runs a statement beside the store. */
  query(place: string, sql: string): Promise<Record<string, unknown>[]>;
  /** SQL of a text of so many bytes. */
  textOf(bytes: number): string;
}

/** `createTestStore` of an engine. */
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
