import {
  type CondenserOptions,
  condenserFromAgent,
  condenserFromSettings,
  planningCondenser,
} from "@sandpiper/agent/condenser/options";
import { policyFromSettings } from "@sandpiper/agent/loop/confirmation";
import type { Analyzer } from "@sandpiper/agent/risk/analyzer";
import { chooseAnalyzer, namedAnalyzer } from "@sandpiper/agent/risk/choose-analyzer";
import { type ToolChoice, toClientNames } from "@sandpiper/agent/tools/choose";
import type { Tool } from "@sandpiper/agent/tools/tool";
import { parseAwsAccess } from "@sandpiper/models/aws";
import { addressOptions, parseCallOptions } from "@sandpiper/models/call-options";
import type { ModelConfig } from "@sandpiper/models/model";
import type { ConfirmationPolicy, GivenAgent, GivenLlm, SecurityAnalyzer } from "@sandpiper/wire";
import type { AgentDocument } from "../../store/conversation-parts.ts";
import type { ConversationConfig, ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { Settings } from "../../users/api.ts";
import { defaultUser } from "../../users/default-user.ts";
import { agentPreferences } from "./agent-preferences.ts";
import { maskSecrets, unmask } from "./mask-secrets.ts";

export interface AgentConfigResolverDeps {
  store: Pick<Store, "agents">;
  settings: Settings;
  /** The tools of a conversation. */
  toolsFor(choice: ToolChoice): readonly Tool[];
}

type Row = Pick<ConversationRow, "id" | "userId" | "config">;

/** Resolves the agent of a conversation: the client's, else the one of the user's settings. */
export class AgentConfigResolver {
  readonly #deps: AgentConfigResolverDeps;

  constructor(deps: AgentConfigResolverDeps) {
    this.#deps = deps;
  }

  /** The document that a client gave; undefined when the settings describe the agent. */
  async clientAgent(row: Pick<Row, "id" | "config">): Promise<AgentDocument | undefined> {
    return row.config.ownAgent ? this.#deps.store.agents.get(row.id) : undefined;
  }

  /** The tools in the order of the prompt. */
  async tools(row: Row): Promise<readonly Tool[]> {
    return this.#tools(row, await this.clientAgent(row));
  }

  async #tools(row: Row, own: AgentDocument | undefined): Promise<readonly Tool[]> {
    const clientTools = own?.clientTools ?? [];
    const named = (await this.#toolNames(row, own))?.map((name) => ({ name }));
    return this.#deps.toolsFor({
      agentType: row.config.agentType,
      browser: row.config.browser,
      clientTools,
      ...(own?.agent && { agent: own.agent, allowed: own.keptTools }),
      ...(named && { agent: { tools: named } }),
    });
  }

  /** Unchecked tool names of a sub-agent's definition or of the settings. */
  async toolNames(row: Row): Promise<readonly string[] | undefined> {
    return this.#toolNames(row, await this.clientAgent(row));
  }

  async #toolNames(row: Row, own: AgentDocument | undefined): Promise<readonly string[] | undefined> {
    if (own?.tools) return own.tools;
    if (own?.agent || row.config.agentType === "plan") return undefined;
    return (await agentPreferences(this.#deps.settings, row)).tools?.map(({ name }) => name);
  }

  /** Whether the tool that calls sub-agents is named or enabled. */
  async hasTaskTool(row: Row): Promise<boolean> {
    const own = (await this.clientAgent(row))?.agent;
    const { enableSubAgents, tools } = await agentPreferences(this.#deps.settings, row);
    const names = ((own ? own.tools : tools) ?? []).map(({ name }) => name);
    return (
      ["task_tool_set", "TaskToolSet", "task"].some((name) => names.includes(name)) ||
      (!own && enableSubAgents)
    );
  }

  /**
   * The model to call, with its key. A model without a key gets the user's key if the user's model
   * has the same provider and the address is the same.
   */
  async model(row: Row): Promise<Partial<ModelConfig>> {
    return this.#model(row, row.config.llmProfile ? undefined : await this.clientAgent(row));
  }

  async #model(row: Row, own: AgentDocument | undefined): Promise<Partial<ModelConfig>> {
    const llm = givenLlm(row, own);
    if (!llm) return conversationModel(row, this.#deps.settings);
    return this.resolveModel(row.userId, llm);
  }

  /** Resolves a client's model description as in `model`. */
  async resolveModel(userId: string, llm: GivenLlm): Promise<Partial<ModelConfig>> {
    const { model, api_key, base_url } = llm;
    const clientOptions = parseCallOptions(llm);
    const options = clientOptions ? { options: clientOptions } : {};
    const apiKey = unmask(api_key);
    const aws = parseAwsAccess(llm);
    const address = {
      ...(base_url && { baseUrl: base_url }),
      ...((base_url || aws?.endpoint) && userId !== defaultUser && { guarded: true }),
      ...(aws && { aws }),
    };
    if (apiKey !== undefined || aws?.secretAccessKey)
      return { model, ...(apiKey && { apiKey }), ...address, ...options };
    const { settings } = this.#deps;
    const stored = await settings.model(userId);
    if (base_url && base_url !== stored.baseUrl) return { model, ...address, ...options };
    const own = await conversationModel({ userId, config: { llmModel: model } }, settings);
    return { ...own, ...address, options: { ...addressOptions(own.options).options, ...clientOptions } };
  }

  /**
   * Whether clients get the text of answers while it grows: when the model that a client gave says
   * `stream: true`, and always for a model of the settings.
   */
  async streams(row: Row): Promise<boolean> {
    const { agent, llm = agent?.llm } = (await this.clientAgent(row)) ?? {};
    return !llm || llm.stream === true;
  }

  /** Whether followers get the calls of the model: when the one of the client asks for it. */
  async logsCompletions(row: Pick<Row, "id" | "config">): Promise<boolean> {
    const { agent, llm = agent?.llm } = (await this.clientAgent(row)) ?? {};
    return llm?.log_completions === true;
  }

  /** The condenser's own model, else the agent's. */
  async condenserModel(row: Row): Promise<Partial<ModelConfig>> {
    const own = row.config.llmProfile ? undefined : await this.clientAgent(row);
    const llm = own?.agent?.condenser?.llm;
    return llm?.model ? this.resolveModel(row.userId, llm) : this.#model(row, own);
  }

  /** When and how the history is condensed; undefined: on request only. */
  async condenser(row: Row): Promise<CondenserOptions | undefined> {
    const { userId, config } = row;
    const { agent, condenser } = (await this.clientAgent(row)) ?? {};
    if (agent && (agent.condenser || !condenser)) return condenserFromAgent(agent.condenser);
    const { settings } = this.#deps;
    const { launchedProfile: launched } = config;
    const profile = launched ? await settings.agentProfiles.byId(userId, launched.id) : undefined;
    const base = profile?.condenser ?? (await settings.agent(userId)).condenser;
    const options = { ...base, ...condenser };
    return condenserFromSettings(
      config.agentType === "plan" ? { ...options, ...planningCondenser } : options,
    );
  }

  async policy({ userId, config }: Row): Promise<ConfirmationPolicy> {
    if (config.confirmationPolicy) return config.confirmationPolicy;
    const view = await this.#deps.settings.view(userId);
    return policyFromSettings(view.confirmation_mode, view.security_analyzer);
  }

  /** The analyzer that rates the risk of actions; undefined for none. */
  async analyzer(row: Row): Promise<Analyzer | undefined> {
    const config = await this.analyzerConfig(row);
    return config && chooseAnalyzer(config);
  }

  /** Maximum concurrent tool calls. */
  async concurrency(row: Row): Promise<number> {
    const own = (await this.clientAgent(row))?.agent?.tool_concurrency_limit;
    return own ?? (await agentPreferences(this.#deps.settings, row)).toolConcurrencyLimit;
  }

  /** The analyzer as clients read it: of the conversation, else of the settings. */
  async analyzerConfig({ userId, config }: Row): Promise<SecurityAnalyzer | undefined> {
    if (config.securityAnalyzer !== undefined) return config.securityAnalyzer ?? undefined;
    return namedAnalyzer((await this.#deps.settings.view(userId)).security_analyzer);
  }

  /**
   * The agent for clients: as given, with the current model and masked secrets (agent-server.md
   * section 3.2).
   */
  async present(row: Row, options: { skills: boolean }): Promise<Record<string, unknown>> {
    const own = await this.clientAgent(row);
    const agent = own?.agent ?? settingsAgent(await this.#tools(row, own));
    const masked = maskSecrets(agent) as Record<string, unknown>;
    const context = masked.agent_context as Record<string, unknown> | null | undefined;
    return {
      ...masked,
      kind: "Agent",
      llm: await this.#presentModel(row, own),
      ...(context && !options.skills && { agent_context: { ...context, skills: [] } }),
    };
  }

  async #presentModel(row: Row, own: AgentDocument | undefined): Promise<unknown> {
    const llm = givenLlm(row, own);
    if (llm) return maskSecrets(llm);
    return { model: (await this.#model(row, own)).model ?? "", usage_id: "agent" };
  }
}

/** The model of a client's document, unless the conversation was switched to a profile. */
function givenLlm({ config }: Row, own: AgentDocument | undefined): GivenLlm | undefined {
  return config.llmProfile ? undefined : (own?.llm ?? own?.agent?.llm);
}

/** The settings' agent in the form of a client's agent. */
function settingsAgent(tools: readonly Tool[]): Omit<GivenAgent, "llm"> {
  const names = toClientNames(tools.filter(({ role }) => !role));
  return {
    tools: names.map((name) => ({ name, params: {} })),
    include_default_tools: ["FinishTool", "ThinkTool"],
  };
}

const providerOf = (model: string) => (model.includes("/") ? model.slice(0, model.indexOf("/")) : "");

/**
 * The model of a conversation: of the profile it was switched to if that still exists, else its own
 * name, else the user's. The user's key and address apply only to the same provider, so that no
 * provider gets the key of another one.
 */
export async function conversationModel(
  row: { userId: string; config: Pick<ConversationConfig, "llmModel" | "llmProfile"> },
  settings: Settings,
): Promise<Partial<ModelConfig>> {
  const profile = row.config.llmProfile
    ? await settings.profileModel(row.userId, row.config.llmProfile)
    : undefined;
  if (profile?.model) return profile;
  const stored = await settings.model(row.userId);
  const own = row.config.llmModel;
  if (!own || own === stored.model) return stored;
  const { options, ...address } = stored;
  const sameProvider = providerOf(own) === providerOf(stored.model ?? "");
  const keepAddress = stored.baseUrl !== undefined && !own.startsWith("demo");
  return sameProvider || keepAddress
    ? { ...address, model: own, ...addressOptions(options) }
    : { model: own };
}
