import { LRUCache } from "lru-cache";

/**
 * A decrypted document with its unique ciphertext; both are undefined when the user has no
 * document.
 */
export interface CachedDocument {
  sealed: Uint8Array | undefined;
  document: Record<string, unknown> | undefined;
}

/**
 * Decrypted documents by user. A read that began before a change does not bring the old document
 * back.
 */
export class DocumentCache {
  readonly #entries = new LRUCache<string, CachedDocument & { readAt: number }>({ max: 10_000 });
  readonly #maxAge: () => number;
  #changes = 0;

  /**
   * `maxAge` returns how long the cache may use an entry, ms; default: until `forget` removes it.
   */
  constructor(maxAge: () => number = () => Number.POSITIVE_INFINITY) {
    this.#maxAge = maxAge;
  }

  /** Number of calls of `forget`. A reader notes it when a read begins, and gives it to `keep`. */
  get changes(): number {
    return this.#changes;
  }

  get(userId: string): CachedDocument | undefined {
    const entry = this.#entries.get(userId);
    return entry && performance.now() - entry.readAt < this.#maxAge() ? entry : undefined;
  }

  /** The last known document, even when it is too old to be used. */
  peek(userId: string): CachedDocument | undefined {
    return this.#entries.peek(userId);
  }

  keep(userId: string, found: CachedDocument, changes = this.#changes): void {
    if (changes === this.#changes) this.#entries.set(userId, { ...found, readAt: performance.now() });
  }

  /** Forgets the changed document of a user; without a user, forgets all documents. */
  forget(userId?: string): void {
    this.#changes++;
    if (userId === undefined) this.#entries.clear();
    else this.#entries.delete(userId);
  }
}
