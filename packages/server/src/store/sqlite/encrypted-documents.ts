import type { DocumentStore } from "../user-store.ts";
import type { StoreContext } from "./context.ts";
import { compile } from "./tables.ts";

type Document = Record<string, unknown>;

/**
 * One encrypted document per user. `get` returns the same frozen object until the document changes,
 * so callers can cache derived data by identity.
 */
export class EncryptedDocuments implements DocumentStore {
  readonly #context: StoreContext;
  readonly #table: "settings" | "user_secrets";
  readonly #place: (userId: string) => string;
  readonly #documents = new Map<string, Document | undefined>();

  constructor(context: StoreContext, table: "settings" | "user_secrets", place: "settings" | "secrets") {
    this.#context = context;
    this.#table = table;
    this.#place = (userId) => `${place}:${userId}`;
  }

  async get(userId: string): Promise<Document | undefined> {
    if (!this.#documents.has(userId)) {
      const sql = `SELECT document FROM ${this.#table} WHERE user_id = ?`;
      const row = this.#context.reader.get<{ document: Uint8Array }>(sql, userId);
      this.#documents.set(
        userId,
        row && parseFrozen(this.#context.vault.decrypt(row.document, this.#place(userId))),
      );
    }
    return this.#documents.get(userId);
  }

  async put(userId: string, document: Document): Promise<void> {
    const text = JSON.stringify(document);
    const sealed = this.#context.vault.encrypt(text, this.#place(userId));
    const insert = this.#context.build
      .insertInto(this.#table)
      .values({ user_id: userId, document: sealed })
      .onConflict((conflict) => conflict.column("user_id").doUpdateSet({ document: sealed }));
    await this.#context.writer.run(compile(insert));
    this.#documents.set(userId, parseFrozen(text));
  }
}

function parseFrozen(text: string): Document {
  return JSON.parse(text, (_key, value) => Object.freeze(value));
}
