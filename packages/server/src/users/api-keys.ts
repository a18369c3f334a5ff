import { randomBytes } from "node:crypto";
import { keyHash } from "../store/key-hash.ts";
import type { ApiKeyStore } from "../store/store.ts";
import type { ApiKeys } from "./api.ts";

/** Longer texts are no keys and are not worth hashing. */
const maxKeyLength = 1024;

/** How long a known key is taken as known without asking the store, ms: `sandpiper keys revoke` works beside a running server. */
const rememberMs = 1_000;

/**
 * API keys over a store of hashes. Known keys are remembered by their hash for a second, and no longer than until any key changes here,
 * so an authenticated request costs one SHA-256 and a map look-up; unknown keys are not remembered, so strangers cannot fill memory.
 */
export class StoredApiKeys implements ApiKeys {
  readonly #store: ApiKeyStore;
  readonly #clock: () => number;
  readonly #known = new Map<string, { user: { userId: string }; until: number }>();

  /** `clock` gives milliseconds that never go back. */
  constructor(store: ApiKeyStore, clock: () => number = () => performance.now()) {
    this.#store = store;
    this.#clock = clock;
  }

  authenticate(key: string): { userId: string } | undefined {
    if (key.length === 0 || key.length > maxKeyLength) return undefined;
    const hash = keyHash(key).toString("latin1");
    const now = this.#clock();
    const known = this.#known.get(hash);
    if (known && now < known.until) return known.user;
    this.#known.delete(hash);
    const row = this.#store.find(key);
    if (!row) return undefined;
    const user = Object.freeze({ userId: row.userId });
    this.#known.set(hash, { user, until: now + rememberMs });
    return user;
  }

  async create(userId: string, name: string): Promise<string> {
    const key = `sp_${randomBytes(32).toString("base64url")}`;
    await this.#change(this.#store.create(userId, name, key));
    return key;
  }

  async adopt(userId: string, name: string, key: string): Promise<void> {
    const row = this.#store.find(key);
    if (row?.userId === userId && row.name === name) return;
    await this.#change(this.#store.create(userId, name, key));
  }

  list(): { id: string; userId: string; name: string; createdAt: number }[] {
    return this.#store.list();
  }

  async remove(id: string): Promise<boolean> {
    const found = this.#store.list().some((row) => row.id === id);
    if (found) await this.#change(this.#store.remove(id));
    return found;
  }

  /** Forgets after the change is stored: what a request remembers while the change is under way must not outlive it. */
  async #change(stored: Promise<unknown>): Promise<void> {
    try {
      await stored;
    } finally {
      this.#known.clear();
    }
  }
}
