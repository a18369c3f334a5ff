import { PlatformError } from "@sandpiper/core/errors";
import { newId } from "@sandpiper/wire";
import { hashKey } from "../key-hash.ts";
import type { ApiKeyRow, ApiKeyStore } from "../user-store.ts";
import { ConstraintViolation } from "./constraint-violation.ts";
import type { SqlContext } from "./context.ts";
import type { WriteLimit } from "./engine.ts";
import { type ApiKeyRecord, compile } from "./tables.ts";

/** The columns of a key without its hash. */
export const apiKeyColumns =
  "api_keys.id, api_keys.user_id, api_keys.name, api_keys.created_at, api_keys.expires_at, api_keys.last_used_at, api_keys.read_only";

/** API keys by hash; the logins of a key are removed with it. */
export class SqlApiKeys implements ApiKeyStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(
    { userId, name, expiresAt = null, readOnly = false }: Parameters<ApiKeyStore["create"]>[0],
    key: string,
    { max }: { max?: number } = {},
  ): Promise<ApiKeyRow> {
    const { build, writer, clock } = this.#context;
    const row: ApiKeyRow = {
      id: newId(),
      userId,
      name,
      createdAt: clock(),
      expiresAt,
      lastUsedAt: null,
      readOnly,
    };
    const hash = hashKey(key);
    const replaced = build
      .deleteFrom("api_keys")
      .where(({ and, eb, or }) =>
        or([eb("hash", "=", hash), and([eb("user_id", "=", userId), eb("name", "=", name)])]),
      );
    const insert = build.insertInto("api_keys").values({
      id: row.id,
      user_id: userId,
      name,
      hash,
      created_at: row.createdAt,
      expires_at: expiresAt,
      last_used_at: null,
      read_only: readOnly ? 1 : 0,
    });
    try {
      if (max === undefined) await writer.run(compile(replaced), compile(insert));
      else await writer.addWithin(limitOf(userId, max), compile(insert));
    } catch (error) {
      if (error instanceof ConstraintViolation)
        throw new PlatformError("KeyNameTaken", { name: JSON.stringify(name) });
      throw error;
    }
    return row;
  }

  async find(key: string): Promise<ApiKeyRow | undefined> {
    const stored = await this.#context.reader.get<StoredKey>(
      `SELECT ${apiKeyColumns} FROM api_keys WHERE hash = ?`,
      hashKey(key),
    );
    return stored && toApiKey(stored);
  }

  async get(id: string): Promise<ApiKeyRow | undefined> {
    const stored = await this.#context.reader.get<StoredKey>(
      `SELECT ${apiKeyColumns} FROM api_keys WHERE id = ?`,
      id,
    );
    return stored && toApiKey(stored);
  }

  async list(userId?: string): Promise<ApiKeyRow[]> {
    const { reader } = this.#context;
    const rows =
      userId === undefined
        ? await reader.all<StoredKey>(`SELECT ${apiKeyColumns} FROM api_keys ORDER BY created_at, id`)
        : await reader.all<StoredKey>(
            `SELECT ${apiKeyColumns} FROM api_keys WHERE user_id = ? ORDER BY created_at, id`,
            userId,
          );
    return rows.map(toApiKey);
  }

  async touch(id: string, usedAt: number): Promise<void> {
    const { build, writer } = this.#context;
    await writer.run(
      compile(build.updateTable("api_keys").set({ last_used_at: usedAt }).where("id", "=", id)),
    );
  }

  async remove(id: string): Promise<void> {
    await this.#context.writer.release(
      compile(this.#context.build.deleteFrom("api_keys").where("id", "=", id)),
    );
  }
}

function limitOf(userId: string, max: number): WriteLimit {
  return {
    userId,
    full: {
      sql: "SELECT 1 FROM (SELECT count(*) AS keys FROM api_keys WHERE user_id = ?) counted WHERE keys >= ?",
      parameters: [userId, max],
    },
    refuse: () => new PlatformError("UserKeysTooMany", { max }),
    countsBytes: false,
  };
}

export type StoredKey = Omit<ApiKeyRecord, "hash">;

export function toApiKey(stored: StoredKey): ApiKeyRow {
  return {
    id: stored.id,
    userId: stored.user_id,
    name: stored.name,
    createdAt: stored.created_at,
    expiresAt: stored.expires_at,
    lastUsedAt: stored.last_used_at,
    readOnly: Boolean(stored.read_only),
  };
}
