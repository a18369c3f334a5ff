import { randomBytes } from "node:crypto";
import type { LoginStore } from "../store/user-store.ts";
import type { ApiKeys, KeyHolder, LoginLinks } from "./api.ts";
import { sourceOf } from "./credential-sources.ts";

/** Names of keys that end with their process begin so. */
export const temporaryKeyPrefix = "command line, process ";

/** Lifetime of a link. */
const linkMs = 10 * 60 * 1000;

/** Maximum number of links per key; another one ends the oldest. */
const maxPerKey = 8;

/** Distinguishes a link from a login, whose tokens contain no colon. */
const toStored = (token: string) => `link:${token}`;

/** Links over the store of logins, so that every server of a database knows them. */
export class StoredLoginLinks implements LoginLinks {
  readonly #store: LoginStore;
  readonly #keys: Pick<ApiKeys, "list">;

  constructor(store: LoginStore, keys: Pick<ApiKeys, "list">) {
    this.#store = store;
    this.#keys = keys;
  }

  async create({ keyId }: Pick<KeyHolder, "keyId">): Promise<string> {
    const token = randomBytes(32).toString("base64url");
    await this.#store.create({ keyId, expiresAt: Date.now() + linkMs }, toStored(token), maxPerKey);
    return token;
  }

  async redeem(token: string): Promise<KeyHolder | undefined> {
    const link = await this.#store.find(toStored(token), Date.now());
    // Of callers at the same time, one removes the link.
    if (!link || !(await this.#store.remove(toStored(token)))) return undefined;
    const keys = await this.#keys.list(link.key.userId);
    // The login stays when the process that made the link, and its key, end.
    const lasting = keys.find(
      ({ name, readOnly, expiresAt }) =>
        !readOnly && expiresAt === null && !name.startsWith(temporaryKeyPrefix),
    );
    const { id: keyId, userId, readOnly, expiresAt: keyExpiresAt } = lasting ?? link.key;
    return { keyId, userId, readOnly, keyExpiresAt, source: sourceOf.key(keyId) };
  }
}
