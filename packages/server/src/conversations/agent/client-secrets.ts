import type { Outbound } from "@sandpiper/core/outbound/api";
import type { SecretSource } from "@sandpiper/wire";
import type { Store } from "../../store/store.ts";
import type { Secrets } from "../../users/api.ts";
import { describeSecrets, resolveSecrets } from "./secret-sources.ts";

export interface ClientSecretsDeps {
  store: Pick<Store, "conversations">;
  secrets: Pick<Secrets, "value" | "forSandbox" | "putConversation" | "removeConversation">;
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

  /** Stores resolved secrets and a scope, if there are any. Throws TooManySecrets. */
  async put(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Record<string, string>,
    sources: Readonly<Record<string, SecretSource>>,
    scope?: readonly string[] | null,
  ): Promise<void> {
    if (Object.keys(values).length === 0 && !scope) return;
    await this.#deps.secrets.putConversation(owner, values, {
      ...describeSecrets(this.#deps, sources),
      ...(scope && { scope }),
    });
  }

  /** Removes the secrets of a conversation that is not stored; true when it is not. */
  async dropUnowned(conversationId: string): Promise<boolean> {
    const { store, secrets } = this.#deps;
    if (await store.conversations.get(conversationId)) return false;
    await secrets.removeConversation(conversationId);
    return true;
  }
}
