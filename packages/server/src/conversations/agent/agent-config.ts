import {
  type CondenserOptions,
  condenserOfAgent,
  condenserOfSettings,
  planningCondenser,
} from "@sandpiper/agent/condenser/options";
import { policyFromSettings } from "@sandpiper/agent/loop/confirmation";
import type { Analyzer } from "@sandpiper/agent/risk/analyzer";
import { chooseAnalyzer, namedAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { namesOf, type ToolChoice } from "@sandpiper/agent/tools/choose";
import type { Tool } from "@sandpiper/agent/tools/tool";
import { awsAccess } from "@sandpiper/models/aws";
import { addressOptions, callOptions } from "@sandpiper/models/call-options";
import type { ModelConfig } from "@sandpiper/models/model";
import type { ConfirmationPolicy, GivenAgent, GivenLlm, SecurityAnalyzer } from "@sandpiper/wire";
import type { AgentDocument } from "../../store/conversation-parts.ts";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import { defaultUser } from "../../users/default-user.ts";
import { maskSecrets, unmask } from "./mask-secrets.ts";
import { conversationModel } from "./model.ts";

export interface AgentConfigResolverDeps {
  store: Pick<Store, "agents">;
  settings: Settings;
  /** The tools of a conversation. */
  toolsFor(choice: ToolChoice): readonly Tool[];
}

type Row = Pick<ConversationRow, "id" | "userId" | "config">;

/** Who works in a conversation: the agent that a client gave with it, else the one that the user's settings describe. */
export class AgentConfigResolver {
  readonly #deps: AgentConfigResolverDeps;

  constructor(deps: AgentConfigResolverDeps) {
    this.#deps = deps;
  }

  /** What a client gave; undefined for a conversation whose agent the settings describe. */
  clientAgent(row: Pick<Row, "id" | "config">): AgentDocument | undefined {
    return row.config.ownAgent ? this.#deps.store.agents.get(row.id) : undefined;
  }

  /** The tools, in the order in which the model reads them. */
  tools(row: Row): readonly Tool[] {
    const own = this.clientAgent(row);
    const clientTools = own?.clientTools ?? [];
    const named = this.toolNames(row)?.map((name) => ({ name }));
    return this.#deps.toolsFor({
      agentType: row.config.agentType,
      browser: row.config.browser,
      clientTools,
      ...(own?.agent && { agent: own.agent, kept: own.keptTools }),
      ...(named && { agent: { tools: named } }),
    });
  }

  /** Names of tools that nobody has checked: those of a sub-agent's definition, or of the settings for an agent which they describe. */
  toolNames(row: Row): readonly string[] | undefined {
    const own = this.clientAgent(row);
    if (own?.tools) return own.tools;
    if (own?.agent || row.config.agentType === "plan") return undefined;
    return this.#deps.settings.agent(row.userId).tools?.map(({ name }) => name);
  }

  /**
   * The model to call, the key included. A model without a key of its own gets the user's where the user's model is of the same provider and
   * the address is not another one.
   */
  model(row: Row): Partial<ModelConfig> {
    const llm = row.config.llmProfile ? undefined : this.#llm(row);
    if (!llm) return conversationModel(row, this.#deps.settings);
    return this.resolveModel(row.userId, llm);
  }

  /** The model that a client describes, as `model`. */
  resolveModel(userId: string, llm: GivenLlm): Partial<ModelConfig> {
    const { model, api_key, base_url } = llm;
    const given = callOptions(llm);
    const options = given ? { options: given } : {};
    const apiKey = unmask(api_key);
    const aws = awsAccess(llm);
    const address = {
      ...(base_url && { baseUrl: base_url }),
      ...((base_url || aws?.endpoint) && userId !== defaultUser && { guarded: true }),
      ...(aws && { aws }),
    };
    if (apiKey !== undefined || aws?.secretAccessKey)
      return { model, ...(apiKey && { apiKey }), ...address, ...options };
    const { settings } = this.#deps;
    const stored = settings.model(userId);
    if (base_url && base_url !== stored.baseUrl) return { model, ...address, ...options };
    const own = conversationModel({ userId, config: { llmModel: model } }, settings);
    return { ...own, ...address, options: { ...addressOptions(own.options).options, ...given } };
  }

  /** The model that summarises: the condenser's own, else the agent's. */
  condenserModel(row: Row): Partial<ModelConfig> {
    const llm = this.clientAgent(row)?.agent?.condenser?.llm;
    return llm?.model && !row.config.llmProfile ? this.resolveModel(row.userId, llm) : this.model(row);
  }

  /** When and how the history is summarised; undefined: only when somebody asks for it. */
  condenser(row: Row): CondenserOptions | undefined {
    const { userId, config } = row;
    const { agent, condenser } = this.clientAgent(row) ?? {};
    if (agent && (agent.condenser || !condenser)) return condenserOfAgent(agent.condenser);
    const { settings } = this.#deps;
    const { launchedProfile: launched } = config;
    const profile = launched ? settings.agentProfiles.byId(userId, launched.id) : undefined;
    const wanted = { ...(profile?.condenser ?? settings.agent(userId).condenser), ...condenser };
    return condenserOfSettings(config.agentType === "plan" ? { ...wanted, ...planningCondenser } : wanted);
  }

  policy({ userId, config }: Row): ConfirmationPolicy {
    if (config.confirmationPolicy) return config.confirmationPolicy;
    const view = this.#deps.settings.view(userId);
    return policyFromSettings(view.confirmation_mode, view.security_analyzer);
  }

  /** What judges the risk of actions; undefined: nothing does. */
  analyzer(row: Row): Analyzer | undefined {
    const described = this.analyzerConfig(row);
    return described && chooseAnalyzer(described);
  }

  /** Calls of tools that may run at the same time. */
  concurrency(row: Row): number {
    return (
      this.clientAgent(row)?.agent?.tool_concurrency_limit ??
      this.#deps.settings.agent(row.userId).toolConcurrencyLimit
    );
  }

  /** What judges the risk of actions, as clients read it: what was given with the conversation, else what the settings name. */
  analyzerConfig({ userId, config }: Row): SecurityAnalyzer | undefined {
    if (config.securityAnalyzer !== undefined) return config.securityAnalyzer ?? undefined;
    return namedAnalyzer(this.#deps.settings.view(userId).security_analyzer);
  }

  /** The agent as clients see it: as it was given, with the model of now and every secret masked (agent-server.md section 3.2). */
  present(row: Row, options: { skills: boolean }): Record<string, unknown> {
    const tools = this.tools(row);
    const own = this.clientAgent(row)?.agent;
    const given = maskSecrets(own ?? settingsAgent(tools)) as Record<string, unknown>;
    const context = given.agent_context as Record<string, unknown> | null | undefined;
    return {
      ...given,
      kind: "Agent",
      llm: this.#presentModel(row),
      ...(context && !options.skills && { agent_context: { ...context, skills: [] } }),
    };
  }

  #presentModel(row: Row): unknown {
    const llm = row.config.llmProfile ? undefined : this.#llm(row);
    if (llm) return maskSecrets(llm);
    return { model: this.model(row).model ?? "", usage_id: "agent" };
  }

  #llm(row: Row): GivenLlm | undefined {
    const own = this.clientAgent(row);
    return own?.llm ?? own?.agent?.llm;
  }
}

/** The agent of the settings in the shape in which clients give theirs. */
function settingsAgent(tools: readonly Tool[]): Omit<GivenAgent, "llm"> {
  const names = namesOf(tools.filter(({ role }) => !role));
  return {
    tools: names.map((name) => ({ name, params: {} })),
    include_default_tools: ["FinishTool", "ThinkTool"],
  };
}
