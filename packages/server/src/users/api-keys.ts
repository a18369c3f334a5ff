import { randomBytes } from "node:crypto";
import type { ApiKeyRow, ApiKeyStore } from "../store/user-store.ts";
import type { ApiKeyOptions, ApiKeys, KeyHolder } from "./api.ts";
import { sourceOf } from "./credential-sources.ts";
import { KeyCache } from "./key-cache.ts";

/** Maximum number of keys of a user. */
const maxKeysPerUser = 100;

/** API keys in a store of hashes. */
export class StoredApiKeys implements ApiKeys {
  readonly #store: ApiKeyStore;
  readonly #memory: KeyCache;

  /** The cache is shared with the logins, which end with their keys. */
  constructor(store: ApiKeyStore, memory: KeyCache = new KeyCache(store)) {
    this.#store = store;
    this.#memory = memory;
  }

  authenticate(key: string): Promise<KeyHolder | undefined> {
    return this.#memory.resolve("key", key, async () => {
      const row = await this.#store.find(key);
      return row && { key: row, expiresAt: row.expiresAt, source: sourceOf.key(row.id) };
    });
  }

  async create(userId: string, name: string): Promise<string> {
    const key = newKey();
    await this.#change(this.#store.create({ userId, name }, key));
    return key;
  }

  async add(
    userId: string,
    { name, expiresAt, readOnly }: ApiKeyOptions,
  ): Promise<{ key: string; row: ApiKeyRow }> {
    const key = newKey();
    const row = this.#store.create({ userId, name, expiresAt, readOnly }, key, { max: maxKeysPerUser });
    return { key, row: await this.#change(row) };
  }

  async adopt(userId: string, name: string, key: string): Promise<void> {
    const row = await this.#store.find(key);
    if (row?.userId === userId && row.name === name) return;
    await this.#change(this.#store.create({ userId, name }, key));
  }

  list(userId?: string): Promise<ApiKeyRow[]> {
    return this.#store.list(userId);
  }

  async remove(id: string): Promise<boolean> {
    const found = (await this.#store.get(id)) !== undefined;
    if (found) await this.#change(this.#store.remove(id));
    return found;
  }

  /** Clears the cache after the write, so that no entry made during the write survives. */
  async #change<T>(stored: Promise<T>): Promise<T> {
    try {
      return await stored;
    } finally {
      this.#memory.clear();
    }
  }
}

function newKey(): string {
  return `sp_${randomBytes(32).toString("base64url")}`;
}
