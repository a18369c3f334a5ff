import { newId } from "@sandpiper/wire";
import { keyHash } from "../key-hash.ts";
import type { ApiKeyRow, ApiKeyStore } from "../store.ts";
import type { StoreContext } from "./context.ts";
import { compile } from "./tables.ts";

interface Stored {
  id: string;
  user_id: string;
  name: string;
  created_at: number;
}

export class SqliteApiKeys implements ApiKeyStore {
  readonly #context: StoreContext;

  constructor(context: StoreContext) {
    this.#context = context;
  }

  async create(userId: string, name: string, key: string): Promise<ApiKeyRow> {
    const row: ApiKeyRow = { id: newId(), userId, name, createdAt: this.#context.clock() };
    const hash = keyHash(key);
    const replaced = this.#context.build
      .deleteFrom("api_keys")
      .where(({ and, eb, or }) => or([eb("hash", "=", hash), and([eb("user_id", "=", userId), eb("name", "=", name)])]));
    const insert = this.#context.build
      .insertInto("api_keys")
      .values({ id: row.id, user_id: userId, name, hash, created_at: row.createdAt });
    await this.#context.writer.run(compile(replaced), compile(insert));
    return row;
  }

  find(key: string): ApiKeyRow | undefined {
    const stored = this.#context.reader.get<Stored>("SELECT * FROM api_keys WHERE hash = ?", keyHash(key));
    return stored && fromStored(stored);
  }

  list(): ApiKeyRow[] {
    return this.#context.reader.all<Stored>("SELECT * FROM api_keys ORDER BY created_at, id").map(fromStored);
  }

  async remove(id: string): Promise<void> {
    await this.#context.writer.run(compile(this.#context.build.deleteFrom("api_keys").where("id", "=", id)));
  }
}

function fromStored(stored: Stored): ApiKeyRow {
  return { id: stored.id, userId: stored.user_id, name: stored.name, createdAt: stored.created_at };
}
