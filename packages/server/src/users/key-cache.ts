import { LRUCache } from "lru-cache";
import { hashKey } from "../store/key-hash.ts";
import type { ApiKeyRow, ApiKeyStore } from "../store/user-store.ts";
import type { KeyHolder } from "./api.ts";

/** Longer texts are no keys and are not worth hashing. */
const maxKeyLength = 1024;

/** How long a known key is taken as known without asking the store, ms: `sandpiper keys revoke` works beside a running server. */
const cacheMs = 1_000;

/** Maximum number of holders, and of last uses, in memory. */
const max = 10_000;

/** How often the last use of a key is written, ms. */
const touchMs = 60_000;

/**
 * Who is behind keys and logins, remembered by hash for a second, and no longer than until any key changes here: an authenticated
 * request costs one SHA-256 and a map look-up. Unknown texts are not remembered, so strangers cannot fill memory. Notes the last use of
 * each key, about once a minute and without keeping anybody waiting.
 */
export class KeyCache {
  readonly #keys: Pick<ApiKeyStore, "touch">;
  readonly #clock: () => number;
  readonly #known = new LRUCache<string, { holder: KeyHolder; until: number; expiresAt: number }>({ max });
  readonly #touched = new LRUCache<string, number>({ max });

  /** `clock` gives milliseconds that never go back. */
  constructor(keys: Pick<ApiKeyStore, "touch">, clock: () => number = () => performance.now()) {
    this.#keys = keys;
    this.#clock = clock;
  }

  /**
   * The holder of a key or login; `kind` keeps these apart. `find` asks the store; `expiresAt` (ms since the epoch) is when what it finds ends.
   * Undefined for what is unknown or has expired.
   */
  resolve(
    kind: "key" | "login",
    text: string,
    find: () => { key: ApiKeyRow; expiresAt: number | null } | undefined,
  ): KeyHolder | undefined {
    if (text.length === 0 || text.length > maxKeyLength) return undefined;
    const name = kind + hashKey(text).toString("latin1");
    const now = this.#clock();
    const known = this.#known.get(name);
    if (known && now < known.until && Date.now() < known.expiresAt) return known.holder;
    this.#known.delete(name);
    const found = find();
    if (!found) return undefined;
    const { id: keyId, userId, readOnly } = found.key;
    const expiresAt = Math.min(found.expiresAt ?? Infinity, found.key.expiresAt ?? Infinity);
    if (expiresAt <= Date.now()) return undefined;
    const holder = Object.freeze({ userId, keyId, readOnly, keyExpiresAt: found.key.expiresAt });
    this.#known.set(name, { holder, until: now + cacheMs, expiresAt });
    this.#touch(keyId, now);
    return holder;
  }

  /** Forgets who was known. */
  clear(): void {
    this.#known.clear();
  }

  #touch(keyId: string, now: number): void {
    const last = this.#touched.get(keyId);
    if (last !== undefined && now - last < touchMs) return;
    this.#touched.set(keyId, now);
    // A time that could not be written is written at a later use.
    this.#keys.touch(keyId, Date.now()).catch(() => this.#touched.delete(keyId));
  }
}
