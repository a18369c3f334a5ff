import { hashKey } from "../key-hash.ts";
import type { ApiKeyRow, LoginStore } from "../user-store.ts";
import { apiKeyColumns, type StoredKey, toApiKey } from "./api-keys.ts";
import type { SqlContext } from "./context.ts";
import { compile } from "./tables.ts";

/** Logins by the hash of their token; `create` removes expired ones. */
export class SqlLogins implements LoginStore {
  readonly #context: SqlContext;

  constructor(context: SqlContext) {
    this.#context = context;
  }

  async create(
    { keyId, expiresAt }: { keyId: string; expiresAt: number },
    token: string,
    keep: number,
  ): Promise<void> {
    const { build, writer, clock } = this.#context;
    const now = clock();
    const newest = build
      .selectFrom("logins")
      .select("hash")
      .where("key_id", "=", keyId)
      .orderBy("created_at", "desc")
      .limit(keep - 1);
    const values = { hash: hashKey(token), key_id: keyId, created_at: now, expires_at: expiresAt };
    await writer.run(
      compile(build.deleteFrom("logins").where("expires_at", "<=", now)),
      compile(build.deleteFrom("logins").where("key_id", "=", keyId).where("hash", "not in", newest)),
      compile(build.insertInto("logins").values(values)),
    );
  }

  async find(token: string, now: number): Promise<{ key: ApiKeyRow; expiresAt: number } | undefined> {
    return this.findByHash(hashKey(token), now);
  }

  async findByHash(
    hash: Uint8Array,
    now: number,
  ): Promise<{ key: ApiKeyRow; expiresAt: number } | undefined> {
    const stored = await this.#context.reader.get<StoredKey & { login_expires_at: number }>(
      `SELECT ${apiKeyColumns}, logins.expires_at AS login_expires_at FROM logins JOIN api_keys ON api_keys.id = logins.key_id
       WHERE logins.hash = ? AND logins.expires_at > ?`,
      hash,
      now,
    );
    return stored && { key: toApiKey(stored), expiresAt: stored.login_expires_at };
  }

  async remove(token: string): Promise<boolean> {
    const { build, writer } = this.#context;
    const removed = compile(build.deleteFrom("logins").where("hash", "=", hashKey(token)));
    return (await writer.release(removed)) > 0;
  }
}
