import type { UserSecretStore } from "../store.ts";
import type { StoreContext } from "./context.ts";
import { compile } from "./tables.ts";

type Document = Record<string, unknown>;

/** Documents with users' secrets, each sealed as a whole. Like settings, a document is the same frozen object until it is replaced. */
export class SqliteUserSecrets implements UserSecretStore {
  readonly #context: StoreContext;
  readonly #documents = new Map<string, Document | undefined>();

  constructor(context: StoreContext) {
    this.#context = context;
  }

  get(userId: string): Document | undefined {
    if (!this.#documents.has(userId)) {
      const row = this.#context.reader.get<{ document: Uint8Array }>(
        "SELECT document FROM user_secrets WHERE user_id = ?",
        userId,
      );
      this.#documents.set(userId, row && frozen(this.#context.vault.open(row.document, place(userId))));
    }
    return this.#documents.get(userId);
  }

  async put(userId: string, document: Document): Promise<void> {
    const text = JSON.stringify(document);
    const sealed = this.#context.vault.seal(text, place(userId));
    const insert = this.#context.build
      .insertInto("user_secrets")
      .values({ user_id: userId, document: sealed })
      .onConflict((conflict) => conflict.column("user_id").doUpdateSet({ document: sealed }));
    await this.#context.writer.run(compile(insert));
    this.#documents.set(userId, frozen(text));
  }
}

function place(userId: string): string {
  return `secrets:${userId}`;
}

function frozen(text: string): Document {
  return JSON.parse(text, (_key, value) => Object.freeze(value));
}
