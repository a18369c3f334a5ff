import { hiddenSecret, type OutputMask } from "../agent/output-mask.ts";
import type { AgentDocument } from "../store/conversation-parts.ts";
import type { ConversationRow } from "../store/conversation-store.ts";
import type { SecretMask } from "../telemetry/mask.ts";
import { hideSecrets, SecretSequence, SecretStream } from "../telemetry/secret-stream.ts";
import type { Secrets, Settings } from "../users/api.ts";
import type { Agents } from "./agents.ts";
import { secretsIn } from "./masked.ts";

export interface OutputMasksDependencies {
  mask: Pick<SecretMask, "matcher" | "registerSecret">;
  secrets: Pick<Secrets, "forSandbox">;
  settings: Pick<Settings, "agent">;
  agents: Pick<Agents, "own">;
}

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

/**
 * What takes secrets out of the outputs of conversations: those of the user, of the sandbox's conversations, of the settings, of the agent that a client gave, and
 * the server's own.
 */
export class OutputMasks {
  readonly #deps: OutputMasksDependencies;
  readonly #sequences = new Map<string, SecretSequence>();
  /** Agents whose secrets are known. */
  readonly #known = new WeakSet<AgentDocument>();

  constructor(deps: OutputMasksDependencies) {
    this.#deps = deps;
  }

  /** Knows the secrets of now. */
  of(row: Row): OutputMask {
    const { mask } = this.#deps;
    this.#learn(row);
    const matcher = () => mask.matcher(row.userId);
    return {
      text: (text) => hideSecrets(matcher(), text, hiddenSecret),
      terminal: (text, more) => this.#sequence(row.id, more).next(matcher(), text, hiddenSecret, more),
      stream: () => new SecretStream(matcher(), hiddenSecret),
    };
  }

  drop(conversationId: string): void {
    this.#sequences.delete(conversationId);
  }

  /** Kept only while an output goes on. */
  #sequence(id: string, more: boolean): SecretSequence {
    const sequence = this.#sequences.get(id) ?? new SecretSequence();
    if (more) this.#sequences.set(id, sequence);
    else this.#sequences.delete(id);
    return sequence;
  }

  /** Whoever reads secrets for the first time registers them. */
  #learn(row: Row): void {
    const { mask, secrets, settings, agents } = this.#deps;
    secrets.forSandbox(row.userId, row.sandboxId);
    settings.agent(row.userId);
    const own = agents.own(row);
    if (!own || this.#known.has(own)) return;
    for (const value of secretsIn(own)) mask.registerSecret(value, row.userId);
    this.#known.add(own);
  }
}
