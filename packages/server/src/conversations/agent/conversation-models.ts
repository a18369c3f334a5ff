import { maskModel } from "@sandpiper/agent/masking/masked-model";
import type { Model, ModelConfig, OpenModel } from "@sandpiper/models/model";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Hub } from "../log/hub.ts";
import type { AgentConfigResolver } from "./agent-config.ts";
import { logCompletions } from "./completion-log.ts";
import type { OutputMasks } from "./output-masks.ts";

type Row = Pick<ConversationRow, "id" | "userId" | "sandboxId" | "config">;

export interface ConversationModelsDeps {
  store: Pick<Store, "conversations">;
  agents: Pick<AgentConfigResolver, "model" | "condenserModel" | "logsCompletions">;
  hub: Pick<Hub, "followers" | "publishEvent">;
  masks: Pick<OutputMasks, "forConversation">;
  openModel: OpenModel;
}

/** Opens the models of conversations; secrets in their requests and answers are masked. */
export class ConversationModels {
  readonly #deps: ConversationModelsDeps;

  constructor(deps: ConversationModelsDeps) {
    this.#deps = deps;
  }

  /** Throws ModelNotConfigured. */
  async open(row: Row, { model, ...rest }: Partial<ModelConfig>): Promise<Model> {
    const { openModel, masks, agents, hub } = this.#deps;
    const mask = await masks.forConversation(row);
    const masked = maskModel(openModel({ model: model ?? "", ...rest, trace: row.config.trace }), mask);
    if (!(await agents.logsCompletions(row))) return masked;
    return logCompletions(masked, {
      mask,
      isFollowed: () => hub.followers(row.id) > 0,
      publish: (event) => hub.publishEvent(row.id, event),
    });
  }

  /** The model that summarises. Throws ModelNotConfigured. */
  async openCondenser(row: Row): Promise<Model> {
    return this.open(row, await this.#deps.agents.condenserModel(row));
  }

  /**
   * Returns a function that opens the conversation's model, and opens it anew after a switch
   * (app-server.md section 2.9, agent-server.md section 3).
   */
  makeOpener(first: Row): () => Promise<Model> {
    const { store, agents } = this.#deps;
    let opened: { name: string; model: Model } | undefined;
    return async () => {
      const row = (await store.conversations.get(first.id)) ?? first;
      const { llmProfile, llmModel, llmRevision = 0 } = row.config;
      const name = JSON.stringify([llmProfile, llmModel, llmRevision]);
      if (opened?.name === name) return opened.model;
      const model = await this.open(row, await agents.model(row));
      opened = { name, model };
      return model;
    };
  }
}
