import { parseId } from "@sandpiper/wire";
import type { ApiKeyStore, LoginStore } from "../store/user-store.ts";
import type { CredentialSources, KeyHolder } from "./api.ts";
import type { KeyCache } from "./key-cache.ts";

/** Names of keys and logins inside of credentials that were made from them. They grant nothing. */
export const sourceOf = {
  key: (id: string) => `k${id.replaceAll("-", "")}`,
  login: (hash: Uint8Array) => `l${Buffer.from(hash).toString("base64url")}`,
};

/** The keys and logins of the stores by their names in other credentials. */
export class StoredCredentialSources implements CredentialSources {
  readonly #keys: Pick<ApiKeyStore, "get">;
  readonly #logins: Pick<LoginStore, "findByHash">;
  readonly #memory: KeyCache;

  constructor(
    stores: { keys: Pick<ApiKeyStore, "get">; logins: Pick<LoginStore, "findByHash"> },
    memory: KeyCache,
  ) {
    this.#keys = stores.keys;
    this.#logins = stores.logins;
    this.#memory = memory;
  }

  holder(source: string): Promise<KeyHolder | undefined> {
    return this.#memory.resolve("source", source, () => this.#find(source));
  }

  onChange(listener: () => void): void {
    this.#memory.onClear(listener);
  }

  async #find(source: string) {
    const name = source.slice(1);
    if (source.startsWith("l")) {
      const found = await this.#logins.findByHash(Buffer.from(name, "base64url"), Date.now());
      return found && { ...found, source };
    }
    const key = source.startsWith("k") ? await this.#keys.get(parseId(name) ?? "") : undefined;
    return key && { key, expiresAt: key.expiresAt, source };
  }
}
