import type { DocumentStore, StoredDocument } from "../user-store.ts";
import { compareAndSet } from "./compare-and-set.ts";
import type { SqlContext } from "./context.ts";
import { type CachedDocument, DocumentCache } from "./document-cache.ts";
import { compile } from "./tables.ts";

/**
 * One encrypted document per user. `get` returns the same frozen object until the document changes,
 * so callers can cache derived data by identity.
 */
export class EncryptedDocuments implements DocumentStore {
  readonly #context: SqlContext;
  readonly #table: "settings" | "user_secrets";
  readonly #cache: DocumentCache;

  constructor(context: SqlContext, table: "settings" | "user_secrets", cache = new DocumentCache()) {
    this.#context = context;
    this.#table = table;
    this.#cache = cache;
  }

  async get(userId: string): Promise<StoredDocument | undefined> {
    return (await this.#read(userId)).document;
  }

  async #read(userId: string): Promise<CachedDocument> {
    const known = this.#cache.get(userId);
    if (known) return known;
    const { changes } = this.#cache;
    const row = await this.#context.reader.find<{ document: Uint8Array }>(this.#table, "user_id", userId);
    const found = this.#open(userId, row?.document);
    this.#cache.keep(userId, found, changes);
    return found;
  }

  change(userId: string, change: (document: StoredDocument | undefined) => StoredDocument): Promise<void> {
    return compareAndSet(async () => {
      const before = await this.#read(userId);
      const text = JSON.stringify(change(before.document));
      const sealed = this.#context.vault.encrypt(text, this.#place(userId));
      try {
        if (!(await this.#replace(userId, before.sealed, sealed))) return undefined;
      } finally {
        // The document may have been stored even if the answer was lost.
        this.#cache.forget(userId);
      }
      this.#cache.keep(userId, { sealed, document: parseFrozen(text) });
      return true;
    }).then(() => {});
  }

  /**
   * Stores a document only if the stored one still is the one that was read: two sealings never
   * give the same bytes.
   */
  async #replace(userId: string, before: Uint8Array | undefined, document: Uint8Array): Promise<boolean> {
    const { build, writer } = this.#context;
    const statement = before
      ? build
          .updateTable(this.#table)
          .set({ document })
          .where("user_id", "=", userId)
          .where("document", "=", before)
      : build
          .insertInto(this.#table)
          .values({ user_id: userId, document })
          .onConflict((conflict) => conflict.column("user_id").doNothing());
    return (await writer.run(compile(statement))) > 0;
  }

  #open(userId: string, sealed: Uint8Array | undefined): CachedDocument {
    if (!sealed) return { sealed, document: undefined };
    const last = this.#cache.peek(userId);
    if (last?.sealed && Buffer.compare(last.sealed, sealed) === 0) return last;
    return { sealed, document: parseFrozen(this.#context.vault.decrypt(sealed, this.#place(userId))) };
  }

  #place(userId: string): string {
    return `${this.#table === "settings" ? "settings" : "secrets"}:${userId}`;
  }
}

function parseFrozen(text: string): StoredDocument {
  return JSON.parse(text, (_key, value) => Object.freeze(value));
}
