import { isDeepStrictEqual } from "node:util";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { SecretMask } from "@sandpiper/core/secrets/mask";
import type { SandboxSecret, SecretInfo } from "@sandpiper/sandbox/network/sandbox-secret";
import { isMasked, type ProviderType } from "@sandpiper/wire";
import type {
  ConversationSecretStore,
  ConversationSecretsRow,
  LookupSecretSource,
} from "../store/conversation-parts.ts";
import type { DocumentStore, StoredDocument } from "../store/user-store.ts";
import type { AboutSecrets, ProviderToken, SecretChange, Secrets } from "./api.ts";
import { parseProviderHost } from "./provider-hosts.ts";
import { checkSecretName } from "./secret-names.ts";
import {
  addConversationSecrets,
  type DerivedSecrets,
  deriveSecrets,
  limitSecrets,
  noSecrets,
  type SecretsDocument,
} from "./secrets-document.ts";

const maxSecrets = 200;
/** Maximum total length of the values of a user, and of a conversation. */
const maxTotalLength = 1_048_576;

export interface StoredSecretsOptions {
  users: DocumentStore;
  conversations: ConversationSecretStore;
  /** Registers every value. */
  mask: Pick<SecretMask, "registerSecret">;
}

/** Secrets in a store of encrypted documents; derived data is cached by document. */
export class StoredSecrets implements Secrets {
  readonly #options: StoredSecretsOptions;
  readonly #derived = new WeakMap<SecretsDocument, DerivedSecrets>();
  /** Serialises the changes of a user, and of a conversation. */
  readonly #changes = new KeyedMutex();

  constructor(options: StoredSecretsOptions) {
    this.#options = options;
  }

  async list(userId: string): Promise<readonly SecretInfo[]> {
    return (await this.#derive(userId)).list;
  }

  async value(userId: string, name: string): Promise<string | undefined> {
    const { forSandboxes } = await this.#derive(userId);
    return forSandboxes.find((secret) => secret.name === name)?.value;
  }

  async put(
    userId: string,
    secret: SecretChange & { value: string },
    { replace }: { replace: boolean },
  ): Promise<void> {
    const { name, value, ...rest } = secret;
    checkSecretName(name);
    if (value.trim() === "" || isMasked(value)) throw new PlatformError("SecretValueMissing");
    this.#options.mask.registerSecret(value, userId);
    await this.#change(userId, ({ custom, providers }) => {
      const before = Object.hasOwn(custom, name) ? custom[name] : undefined;
      if (before && !replace) throw new PlatformError("SecretNameTaken", { name });
      const next = {
        ...custom,
        [name]: { description: null, hosts: null, ...before, ...omitUndefined(rest), value },
      };
      const total = Object.values(next).reduce((sum, one) => sum + one.value.length, 0);
      if (Object.keys(next).length > maxSecrets)
        throw new PlatformError("UserSecretsTooMany", { max: maxSecrets });
      if (total > maxTotalLength) throw new PlatformError("UserSecretsTooLong");
      return { custom: next, providers };
    });
  }

  async rename(userId: string, name: string, to: SecretChange): Promise<void> {
    const { name: next, ...rest } = to;
    checkSecretName(next);
    await this.#change(userId, ({ custom, providers }) => {
      if (!Object.hasOwn(custom, name))
        throw new PlatformError("SecretIdUnknown", { id: name.slice(0, 128) });
      const { [name]: before, ...others } = custom;
      if (Object.hasOwn(others, next)) throw new PlatformError("SecretNameTaken", { name: next });
      return { custom: { ...others, [next]: { ...before!, ...omitUndefined(rest) } }, providers };
    });
  }

  async remove(userId: string, name: string): Promise<void> {
    await this.#change(userId, ({ custom, providers }) => {
      if (!Object.hasOwn(custom, name))
        throw new PlatformError("SecretIdUnknown", { id: name.slice(0, 128) });
      const { [name]: _, ...others } = custom;
      return { custom: others, providers };
    });
  }

  async providers(userId: string): Promise<ReadonlyMap<ProviderType, ProviderToken>> {
    return (await this.#derive(userId)).providers;
  }

  async providerHosts(userId: string): Promise<Readonly<Record<string, string | null>>> {
    return (await this.#derive(userId)).providerHosts;
  }

  async setProviders(
    userId: string,
    tokens: ReadonlyMap<ProviderType, { token: string | null; host: string | null }>,
  ): Promise<void> {
    const wanted = [...tokens].map(([type, { token, host }]) => ({
      type,
      token: isMasked(token) ? "" : (token ?? ""),
      host: parseProviderHost(host),
    }));
    for (const { token } of wanted) this.#options.mask.registerSecret(token, userId);
    await this.#change(userId, ({ custom, providers }) => {
      const next = wanted.flatMap(({ type, token, host }): [ProviderType, ProviderToken][] => {
        const kept = token === "" ? providers[type]?.token : token;
        return kept === undefined ? [] : [[type, { token: kept, host }]];
      });
      return { custom, providers: Object.fromEntries(next) };
    });
  }

  async putConversation(
    { userId, conversationId, sandboxId }: { userId: string; conversationId: string; sandboxId: string },
    values: Readonly<Record<string, string>>,
    { descriptions, sources, scope }: AboutSecrets = {},
  ): Promise<void> {
    this.#admit(userId, values);
    await this.#changeConversation(conversationId, (before) => {
      const all = { ...before?.values, ...values };
      requireRoom(all);
      const kept = Object.entries(before?.sources ?? {}).filter(([name]) => !Object.hasOwn(values, name));
      return {
        ...{ userId, conversationId, sandboxId, values: all },
        descriptions: { ...before?.descriptions, ...descriptions },
        sources: { ...Object.fromEntries(kept), ...sources },
        scope: scope ?? before?.scope,
      };
    });
  }

  newConversation(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Readonly<Record<string, string>>,
    { descriptions, sources, scope }: AboutSecrets = {},
  ): ConversationSecretsRow | undefined {
    if (Object.keys(values).length === 0 && !scope) return undefined;
    this.#admit(owner.userId, values);
    requireRoom(values);
    return { ...owner, values, descriptions, sources, scope };
  }

  async refreshConversation(
    { userId, conversationId }: { userId: string; conversationId: string },
    found: Readonly<Record<string, { source: LookupSecretSource; value: string }>>,
  ): Promise<void> {
    await this.#changeConversation(conversationId, (row) => {
      const same = Object.entries(found).filter(([name, { source }]) =>
        isDeepStrictEqual(row?.sources?.[name], source),
      );
      if (!row || same.length === 0) return undefined;
      for (const [, { value }] of same) this.#options.mask.registerSecret(value, userId);
      const values = { ...row.values, ...Object.fromEntries(same.map(([name, { value }]) => [name, value])) };
      if (Object.values(values).reduce((sum, value) => sum + value.length, 0) > maxTotalLength)
        return undefined;
      const at = Date.now();
      const sources = {
        ...row.sources,
        ...Object.fromEntries(same.map(([name, { source }]) => [name, { ...source, at }])),
      };
      return { ...row, values, sources };
    });
  }

  async removeConversation(conversationId: string): Promise<void> {
    await this.#changes.run(`conversation ${conversationId}`, () =>
      this.#options.conversations.remove(conversationId),
    );
  }

  async forSandbox(userId: string, sandboxId: string): Promise<readonly SandboxSecret[]> {
    const { conversations, mask } = this.#options;
    const [{ forSandboxes }, all] = await Promise.all([
      this.#derive(userId),
      conversations.listBySandbox(sandboxId),
    ]);
    const rows = all.filter((row) => row.userId === userId);
    let secrets = limitSecrets(
      forSandboxes,
      rows.flatMap(({ scope }) => (scope ? [scope] : [])),
    );
    for (const row of rows) {
      for (const value of Object.values(row.values)) mask.registerSecret(value, userId);
      secrets = addConversationSecrets(secrets, row.values, row.descriptions);
    }
    return secrets;
  }

  /** Checks the names of new secrets, and hides their values from logs. */
  #admit(userId: string, values: Readonly<Record<string, string>>): void {
    for (const [name, value] of Object.entries(values)) {
      checkSecretName(name);
      this.#options.mask.registerSecret(value, userId);
    }
  }

  async #document(userId: string): Promise<SecretsDocument> {
    return asSecrets(await this.#options.users.get(userId));
  }

  async #derive(userId: string): Promise<DerivedSecrets> {
    const document = await this.#document(userId);
    const known = this.#derived.get(document);
    if (known) return known;
    const derived = deriveSecrets(document);
    for (const { value, outgoingValue = "" } of derived.forSandboxes)
      for (const one of [value, outgoingValue]) this.#options.mask.registerSecret(one, userId);
    for (const { token } of derived.providers.values()) this.#options.mask.registerSecret(token, userId);
    this.#derived.set(document, derived);
    return derived;
  }

  #changeConversation(
    conversationId: string,
    change: (row: ConversationSecretsRow | undefined) => ConversationSecretsRow | undefined,
  ): Promise<void> {
    const { conversations } = this.#options;
    return this.#changes.run(`conversation ${conversationId}`, () =>
      conversations.change(conversationId, change),
    );
  }

  #change(userId: string, change: (document: SecretsDocument) => SecretsDocument): Promise<void> {
    return this.#changes.run(userId, async () => {
      await this.#options.users.change(userId, (stored) => ({ ...change(asSecrets(stored)) }));
    });
  }
}

function asSecrets(stored: StoredDocument | undefined): SecretsDocument {
  return (stored as SecretsDocument | undefined) ?? noSecrets;
}

/** Throws InvalidParameter when a conversation has too many secrets or too long ones. */
function requireRoom(values: Readonly<Record<string, string>>): void {
  const total = Object.values(values).reduce((sum, value) => sum + value.length, 0);
  if (total > maxTotalLength || Object.keys(values).length > maxSecrets)
    throw new PlatformError("ConversationSecretsTooMany", { max: maxSecrets });
}

function omitUndefined<T extends object>(change: T): T {
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as T;
}
