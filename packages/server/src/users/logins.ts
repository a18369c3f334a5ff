import { randomBytes } from "node:crypto";
import { hashKey } from "../store/key-hash.ts";
import type { LoginStore } from "../store/user-store.ts";
import type { KeyHolder, Logins } from "./api.ts";
import { sourceOf } from "./credential-sources.ts";
import type { KeyCache } from "./key-cache.ts";

/** Lifetime of a login. */
const loginMs = 30 * 24 * 60 * 60 * 1000;

/** Maximum number of logins per key; another one ends the oldest. */
const maxPerKey = 50;

/** Logins of browsers over a store of hashes. */
export class StoredLogins implements Logins {
  readonly #store: LoginStore;
  readonly #memory: KeyCache;

  constructor(store: LoginStore, memory: KeyCache) {
    this.#store = store;
    this.#memory = memory;
  }

  async begin({ keyId, keyExpiresAt }: KeyHolder): Promise<{ token: string; expiresAt: number }> {
    const token = randomBytes(32).toString("base64url");
    const expiresAt = Math.min(Date.now() + loginMs, keyExpiresAt ?? Infinity);
    await this.#store.create({ keyId, expiresAt }, token, maxPerKey);
    return { token, expiresAt };
  }

  async authenticate(token: string): Promise<KeyHolder | undefined> {
    // The store has links under texts of another form.
    if (!/^[\w-]{43}$/.test(token)) return undefined;
    return this.#memory.resolve("login", token, async () => {
      const found = await this.#store.find(token, Date.now());
      return found && { ...found, source: sourceOf.login(hashKey(token)) };
    });
  }

  async end(token: string): Promise<void> {
    try {
      await this.#store.remove(token);
    } finally {
      this.#memory.clear();
    }
  }
}
