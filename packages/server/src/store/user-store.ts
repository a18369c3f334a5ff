export type StoredDocument = Record<string, unknown>;

/** One encrypted document per user. */
export interface DocumentStore {
  get(userId: string): Promise<StoredDocument | undefined>;
  /**
   * Stores the document that `change` makes of the current one. Calls `change` again when another
   * process has changed the document meanwhile; when `change` throws, the store keeps the current
   * document. Throws StorageBusy when other processes change the document at every attempt.
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
   * Stores a hash of the key, and replaces a key with the same name. With `max`, throws KeyExists
   * when the name is not new, and TooManyKeys when the user has `max` keys already.
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
  /** Returns whether it was there. */
  remove(token: string): Promise<boolean>;
}

/** Cost of users' model calls by day (UTC), added up in the transaction of each `stats` record. */
export interface SpendingStore {
  /** USD; `day` is `2026-01-31`. */
  getSpent(userId: string, day: string): Promise<number>;
}
