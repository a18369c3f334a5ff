import type { ContextLimits } from "@sandpiper/agent/condenser/context-limits";
import type { CondenserOptions } from "@sandpiper/agent/condenser/options";
import type { Analyzer } from "@sandpiper/agent/risk/analyzer";
import type { Model } from "@sandpiper/models/model";
import type { ConfirmationPolicy } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { ConversationModels } from "../agent/conversation-models.ts";

export interface RunAgentDeps {
  store: Pick<Store, "conversations">;
  agents: AgentConfigResolver;
  models: ConversationModels;
  /** What the providers have said about the context windows of models. */
  contextLimits: ContextLimits;
}

export interface StepRules {
  /** Whether followers get the text of answers while it grows. */
  streams: boolean;
  policy: ConfirmationPolicy;
  analyzer: Analyzer | undefined;
}

/** The agent of one run. Each call reads the current settings of the conversation. */
export class RunAgent {
  /** The model of the next call. Throws ModelNotConfigured. */
  readonly openModel: () => Promise<Model>;
  /** Maximum concurrent tool calls. */
  readonly concurrency: number;
  readonly contextLimits: ContextLimits;
  readonly #deps: RunAgentDeps;
  readonly #first: ConversationRow;

  private constructor(deps: RunAgentDeps, row: ConversationRow, concurrency: number) {
    this.#deps = deps;
    this.#first = row;
    this.openModel = deps.models.makeOpener(row);
    this.concurrency = concurrency;
    this.contextLimits = deps.contextLimits;
  }

  /** Reads what stays during the run. */
  static async open(deps: RunAgentDeps, row: ConversationRow): Promise<RunAgent> {
    return new RunAgent(deps, row, await deps.agents.concurrency(row));
  }

  /** The model that summarises. Throws ModelNotConfigured. */
  async openCondenser(): Promise<Model> {
    return this.#deps.models.openCondenser(await this.#getRow());
  }

  /** Undefined: the history is condensed only on request. */
  async condenser(): Promise<CondenserOptions | undefined> {
    return this.#deps.agents.condenser(await this.#getRow());
  }

  /** Reads the rules that the next step follows. */
  async rules(): Promise<StepRules> {
    const { agents } = this.#deps;
    const row = await this.#getRow();
    const [streams, policy, analyzer] = await Promise.all([
      agents.streams(row),
      agents.policy(row),
      agents.analyzer(row),
    ]);
    return { streams, policy, analyzer };
  }

  async #getRow(): Promise<ConversationRow> {
    return (await this.#deps.store.conversations.get(this.#first.id)) ?? this.#first;
  }
}
