/** One encrypted document per user. */
export interface DocumentStore {
  get(userId: string): Record<string, unknown> | undefined;
  put(userId: string, document: Record<string, unknown>): Promise<void>;
}

export interface ApiKeyRow {
  id: string;
  userId: string;
  name: string;
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
  /** As far as it was written: it is written rarely. */
  lastUsedAt: number | null;
  readOnly: boolean;
}

export interface ApiKeyStore {
  /**
   * Stores only a hash of the key. A key of the same user and name is replaced, unless `unique` asks for a new name:
   * then throws PlatformError KeyExists.
   */
  create(
    row: Pick<ApiKeyRow, "userId" | "name"> & Partial<Pick<ApiKeyRow, "expiresAt" | "readOnly">>,
    key: string,
    options?: { unique?: boolean },
  ): Promise<ApiKeyRow>;
  find(key: string): ApiKeyRow | undefined;
  /** Oldest first; of all users without `userId`. */
  list(userId?: string): ApiKeyRow[];
  /** Writes the time of the last use. */
  touch(id: string, usedAt: number): Promise<void>;
  /** Ends the key with its logins. */
  remove(id: string): Promise<void>;
}

/** Logins of browsers: each belongs to the key that was exchanged for it, and ends with it. */
export interface LoginStore {
  /** Stores only a hash of the token, and removes what has expired and, of this key, all but the newest `keep`. */
  create(login: { keyId: string; expiresAt: number }, token: string, keep: number): Promise<void>;
  /** The key of a login that has not expired at `now`, and when the login does. */
  find(token: string, now: number): { key: ApiKeyRow; expiresAt: number } | undefined;
  remove(token: string): Promise<void>;
}

/** What users' model calls have cost, by day (UTC). The log adds it up in the transaction of each `stats` record. */
export interface SpendingStore {
  /** USD; `day` is `2026-01-31`. */
  getSpent(userId: string, day: string): number;
}
