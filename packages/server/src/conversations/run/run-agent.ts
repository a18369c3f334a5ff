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

/** The agent of one run. Each call reads the current settings of the conversation. */
export class RunAgent {
  /** The model of the next call. Throws ModelNotConfigured. */
  readonly openModel: () => Model;
  /** Maximum concurrent tool calls. */
  readonly concurrency: number;
  readonly contextLimits: ContextLimits;
  readonly #deps: RunAgentDeps;
  readonly #first: ConversationRow;

  constructor(deps: RunAgentDeps, row: ConversationRow) {
    this.#deps = deps;
    this.#first = row;
    this.openModel = deps.models.makeOpener(row);
    this.concurrency = deps.agents.concurrency(row);
    this.contextLimits = deps.contextLimits;
  }

  /** The model that summarises. Throws ModelNotConfigured. */
  openCondenser(): Model {
    return this.#deps.models.openCondenser(this.#row);
  }

  /** Undefined: the history is condensed only on request. */
  condenser(): CondenserOptions | undefined {
    return this.#deps.agents.condenser(this.#row);
  }

  /** Whether followers get the text of answers while it grows. */
  streams(): boolean {
    return this.#deps.agents.streams(this.#row);
  }

  policy(): ConfirmationPolicy {
    return this.#deps.agents.policy(this.#row);
  }

  analyzer(): Analyzer | undefined {
    return this.#deps.agents.analyzer(this.#row);
  }

  get #row(): ConversationRow {
    return this.#deps.store.conversations.get(this.#first.id) ?? this.#first;
  }
}
