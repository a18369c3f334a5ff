import { LRUCache } from "lru-cache";

/** A decrypted document with its unique ciphertext; both are undefined when there is none. */
export interface CachedDocument {
  sealed: Uint8Array | undefined;
  document: Record<string, unknown> | undefined;
}

/**
 * Decrypted documents by user. A read that began before a document changed does not bring the old
 * one back.
 */
export class DocumentCache {
  readonly #entries = new LRUCache<string, CachedDocument & { readAt: number }>({ max: 10_000 });
  readonly #maxAge: () => number;
  #changes = 0;

  /** `maxAge` says how long an entry may be used, ms; default: until it is forgotten. */
  constructor(maxAge: () => number = () => Number.POSITIVE_INFINITY) {
    this.#maxAge = maxAge;
  }

  /** Increases when something is forgotten; `keep` takes what it was when a read began. */
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

  /** Forgets a document that has changed; without a user all of them. */
  forget(userId?: string): void {
    this.#changes++;
    if (userId === undefined) this.#entries.clear();
    else this.#entries.delete(userId);
  }
}
