import { hiddenSecret, type OutputMask } from "@sandpiper/agent/masking/output-mask";
import type { SecretMask } from "@sandpiper/core/secrets/mask";
import type { SecretMatcher } from "@sandpiper/core/secrets/secret-matcher";
import { hideSecrets, SecretStream } from "@sandpiper/core/secrets/secret-stream";
import type { AgentDocument } from "../../store/conversation-parts.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Secrets, Settings } from "../../users/api.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import { collectSecrets } from "./mask-secrets.ts";

export interface OutputMasksDeps {
  mask: Pick<SecretMask, "matcher" | "registerKey">;
  secrets: Pick<Secrets, "forSandbox">;
  settings: Pick<Settings, "agent">;
  agents: Pick<AgentConfigResolver, "clientAgent">;
}

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/**
 * Masks secrets in the outputs of conversations: those of the user, the sandbox's conversations,
 * the settings, the client's agent and the server.
 */
export class OutputMasks {
  readonly #deps: OutputMasksDeps;
  readonly #terminals = new Map<string, SecretStream>();
  /** Documents whose secrets are registered. */
  readonly #registered = new WeakSet<AgentDocument>();

  constructor(deps: OutputMasksDeps) {
    this.#deps = deps;
  }

  /** Masks the secrets that are registered at the time of the call. */
  async forConversation(row: Row): Promise<OutputMask> {
    const { mask } = this.#deps;
    await this.#registerSecrets(row);
    const { userId } = row;
    const matcher = () => mask.matcher(userId);
    return {
      text: (text) => hideSecrets(matcher(), text, hiddenSecret),
      terminal: (text, more) => this.#terminal(row.id, more, matcher()).output(matcher(), text, more),
      stream: () => new SecretStream(matcher(), hiddenSecret, { patient: true }),
    };
  }

  /** Masks a user's secrets in texts outside of a conversation, such as a title. */
  forUser(userId: string): Promise<(text: string) => string> {
    return userMask(this.#deps, userId);
  }

  drop(conversationId: string): void {
    this.#terminals.delete(conversationId);
  }

  /** The stream exists only while an output continues. */
  #terminal(id: string, more: boolean, matcher: SecretMatcher): SecretStream {
    const stream = this.#terminals.get(id) ?? new SecretStream(matcher, hiddenSecret);
    if (more) this.#terminals.set(id, stream);
    else this.#terminals.delete(id);
    return stream;
  }

  async #registerSecrets(row: Row): Promise<void> {
    const { mask, agents } = this.#deps;
    const [own] = await Promise.all([
      agents.clientAgent(row),
      registerSecrets(this.#deps, row.userId, row.sandboxId),
    ]);
    if (!own || this.#registered.has(own)) return;
    for (const value of collectSecrets(own)) mask.registerKey(value, row.userId);
    this.#registered.add(own);
  }
}

/** Masks a user's secrets in texts outside of a conversation, such as a title. */
export async function userMask(
  deps: Omit<OutputMasksDeps, "agents">,
  userId: string,
): Promise<(text: string) => string> {
  await registerSecrets(deps, userId, "");
  return (text) => hideSecrets(deps.mask.matcher(userId), text, hiddenSecret);
}

/** Registers a user's and a sandbox's secrets with the mask, which reading them does. */
export async function registerSecrets(
  { secrets, settings }: Pick<OutputMasksDeps, "secrets" | "settings">,
  userId: string,
  sandboxId: string,
): Promise<void> {
  await Promise.all([secrets.forSandbox(userId, sandboxId), settings.agent(userId)]);
}
