import { LRUCache } from "lru-cache";
import { hashKey } from "../store/key-hash.ts";
import type { ApiKeyRow, ApiKeyStore } from "../store/user-store.ts";
import type { KeyHolder } from "./api.ts";

/** Longer texts are not keys and are not hashed. */
const maxKeyLength = 1024;

/** How long an entry is valid, because `sandpiper keys revoke` works next to a running server. */
const cacheMs = 1_000;

/** Maximum number of entries. */
const max = 10_000;

/** How often the last use of a key is written. */
const touchMs = 60_000;

interface Found {
  key: ApiKeyRow;
  expiresAt: number | null;
  source: string;
}

/**
 * Caches the holders of keys and logins by hash for a second, so that an authenticated request
 * costs one SHA-256 and a map look-up. Unknown texts are not cached: they cannot fill memory.
 * Requests that come during a look-up in the store share its answer. The cache also writes the last
 * use of each key, once a minute and in the background.
 */
export class KeyCache {
  readonly #keys: Pick<ApiKeyStore, "touch">;
  readonly #clock: () => number;
  readonly #known = new LRUCache<string, { holder: KeyHolder; until: number; expiresAt: number }>({ max });
  readonly #lookUps = new Map<string, Promise<KeyHolder | undefined>>();
  /** Number of calls of `clear`. */
  #clears = 0;
  readonly #listeners = new Set<() => void>();
  readonly #touched = new LRUCache<string, number>({ max });

  /** `clock` returns monotonic milliseconds. */
  constructor(keys: Pick<ApiKeyStore, "touch">, clock: () => number = () => performance.now()) {
    this.#keys = keys;
    this.#clock = clock;
  }

  /**
   * The holder of a key, a login, or a name of either (`KeyHolder.source`); undefined when it is
   * unknown or expired. `find` asks the store.
   */
  async resolve(
    kind: "key" | "login" | "source",
    text: string,
    find: () => Promise<Found | undefined>,
  ): Promise<KeyHolder | undefined> {
    if (text.length === 0 || text.length > maxKeyLength) return undefined;
    const name = kind + hashKey(text).toString("latin1");
    const now = this.#clock();
    const known = this.#known.get(name);
    if (known && now < known.until && Date.now() < known.expiresAt) return known.holder;
    this.#known.delete(name);
    const running = this.#lookUps.get(name);
    if (running) return running;
    const clears = this.#clears;
    const lookUp = this.#lookUp(name, find, now).finally(() => {
      if (clears === this.#clears) this.#lookUps.delete(name);
    });
    this.#lookUps.set(name, lookUp);
    return lookUp;
  }

  /** Forgets all holders, after keys or logins have changed. */
  clear(): void {
    this.#clears++;
    this.#known.clear();
    this.#lookUps.clear();
    for (const listener of this.#listeners) listener();
  }

  /** Calls the listener after each `clear`. */
  onClear(listener: () => void): void {
    this.#listeners.add(listener);
  }

  async #lookUp(
    name: string,
    find: () => Promise<Found | undefined>,
    now: number,
  ): Promise<KeyHolder | undefined> {
    const clears = this.#clears;
    const found = await find();
    if (!found) return undefined;
    const { id: keyId, userId, readOnly } = found.key;
    const expiresAt = Math.min(found.expiresAt ?? Infinity, found.key.expiresAt ?? Infinity);
    if (expiresAt <= Date.now()) return undefined;
    const holder = Object.freeze({
      userId,
      keyId,
      readOnly,
      keyExpiresAt: found.key.expiresAt,
      source: found.source,
    });
    // The answer may be older than a change that came during the look-up.
    if (clears === this.#clears) this.#known.set(name, { holder, until: now + cacheMs, expiresAt });
    this.#touch(keyId, now);
    return holder;
  }

  #touch(keyId: string, now: number): void {
    const last = this.#touched.get(keyId);
    if (last !== undefined && now - last < touchMs) return;
    this.#touched.set(keyId, now);
    // After a failed write, the next use tries again.
    this.#keys.touch(keyId, Date.now()).catch(() => this.#touched.delete(keyId));
  }
}
