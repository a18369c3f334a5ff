import type { DocumentStore } from "../user-store.ts";
import type { SqlContext } from "./context.ts";
import { type CachedDocument, DocumentCache } from "./document-cache.ts";
import { compile } from "./tables.ts";

type Document = Record<string, unknown>;

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

  async get(userId: string): Promise<Document | undefined> {
    const known = this.#cache.get(userId);
    if (known) return known.document;
    const { changes } = this.#cache;
    const sql = `SELECT document FROM ${this.#table} WHERE user_id = ?`;
    const row = await this.#context.reader.get<{ document: Uint8Array }>(sql, userId);
    const found = this.#open(userId, row?.document);
    this.#cache.keep(userId, found, changes);
    return found.document;
  }

  async put(userId: string, document: Document): Promise<void> {
    const text = JSON.stringify(document);
    const sealed = this.#context.vault.encrypt(text, this.#place(userId));
    const insert = this.#context.build
      .insertInto(this.#table)
      .values({ user_id: userId, document: sealed })
      .onConflict((conflict) => conflict.column("user_id").doUpdateSet({ document: sealed }));
    await this.#context.writer.run(compile(insert));
    this.#cache.forget(userId);
    this.#cache.keep(userId, { sealed, document: parseFrozen(text) });
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

function parseFrozen(text: string): Document {
  return JSON.parse(text, (_key, value) => Object.freeze(value));
}
