export type StoredDocument = Record<string, unknown>;

/** One encrypted document per user. */
export interface DocumentStore {
  get(userId: string): Promise<StoredDocument | undefined>;
  /**
   * Stores the document that `change` makes of the current one. `change` is called again when
   * another process has changed the document meanwhile; what it throws stores nothing. Throws
   * StorageBusy when others always come first.
   */
  change(userId: string, change: (document: StoredDocument | undefined) => StoredDocument): Promise<void>;
}

export interface ApiKeyRow {
  id: string;
  userId: string;
  name: string;
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
  /** Written at most once a minute. */
  lastUsedAt: number | null;
  readOnly: boolean;
}

export interface ApiKeyStore {
  /**
   * Stores a hash of the key. Replaces a key with the same name. With `max`, the name must be new,
   * else it throws KeyExists, and the user may have so many keys, else it throws TooManyKeys.
   */
  create(
    row: Pick<ApiKeyRow, "userId" | "name"> & Partial<Pick<ApiKeyRow, "expiresAt" | "readOnly">>,
    key: string,
    options?: { max?: number },
  ): Promise<ApiKeyRow>;
  find(key: string): Promise<ApiKeyRow | undefined>;
  get(id: string): Promise<ApiKeyRow | undefined>;
  /** Oldest first; of all users without `userId`. */
  list(userId?: string): Promise<ApiKeyRow[]>;
  touch(id: string, usedAt: number): Promise<void>;
  /** Removes the key with its logins. */
  remove(id: string): Promise<void>;
}

/** Logins of browsers, removed with their key. */
export interface LoginStore {
  /** Stores a hash of the token; removes expired logins and all but the key's newest `keep`. */
  create(login: { keyId: string; expiresAt: number }, token: string, keep: number): Promise<void>;
  /** The key and the expiry of a login that is valid at `now`. */
  find(token: string, now: number): Promise<{ key: ApiKeyRow; expiresAt: number } | undefined>;
  /** The same by the SHA-256 of the token. */
  findByHash(hash: Uint8Array, now: number): Promise<{ key: ApiKeyRow; expiresAt: number } | undefined>;
  remove(token: string): Promise<void>;
}

/** Cost of users' model calls by day (UTC), added up in the transaction of each `stats` record. */
export interface SpendingStore {
  /** USD; `day` is `2026-01-31`. */
  getSpent(userId: string, day: string): Promise<number>;
}
