import type { Outbound } from "@sandpiper/core/outbound/api";
import type { SecretSource } from "@sandpiper/wire";
import type { ConversationSecretsRow } from "../../store/conversation-parts.ts";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "../../users/api.ts";
import { describeSecrets, resolveSecrets } from "./secret-sources.ts";

export interface ClientSecretsDeps {
  store: Pick<Store, "conversations">;
  secrets: Pick<
    Secrets,
    "value" | "forSandbox" | "newConversation" | "putConversation" | "removeConversation"
  >;
  outbound: Pick<Outbound, "fetch">;
  publicUrl: () => string;
}

/** The secrets that clients give to conversations. */
export class ClientSecrets {
  readonly #deps: ClientSecretsDeps;

  constructor(deps: ClientSecretsDeps) {
    this.#deps = deps;
  }

  /** The values of given secrets. Throws what `resolveSecrets` throws. */
  resolve(
    place: { userId: string; sandboxId: string },
    sources: Readonly<Record<string, SecretSource>>,
  ): Promise<Record<string, string>> {
    return resolveSecrets(this.#deps, place, sources);
  }

  /**
   * Makes the record of resolved secrets and a scope for a new conversation; undefined: there are
   * none. Throws TooManySecrets.
   */
  makeRow(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Record<string, string>,
    sources: Readonly<Record<string, SecretSource>>,
    scope: readonly string[] | null | undefined,
  ): ConversationSecretsRow | undefined {
    const about = { ...describeSecrets(this.#deps, sources), scope: scope ?? undefined };
    return this.#deps.secrets.newConversation(owner, values, about);
  }

  /** Stores resolved secrets, if there are any. Throws TooManySecrets. */
  async put(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Record<string, string>,
    sources: Readonly<Record<string, SecretSource>>,
  ): Promise<void> {
    if (Object.keys(values).length === 0) return;
    await this.#deps.secrets.putConversation(owner, values, describeSecrets(this.#deps, sources));
  }

  /** Removes the secrets of a conversation that is not stored; true when it is not. */
  async dropUnowned(conversationId: string): Promise<boolean> {
    const { store, secrets } = this.#deps;
    if (await store.conversations.get(conversationId)) return false;
    await secrets.removeConversation(conversationId);
    return true;
  }
}
