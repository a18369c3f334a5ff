import type { ModelConfig } from "@sandpiper/models/model";
import type {
  McpServer,
  McpServers,
  SettingsUpdate,
  SettingsV1Update,
  SettingsView,
  UserInfo,
} from "@sandpiper/wire";
import { CondenserSettings } from "@sandpiper/wire";
import { Create } from "typebox/value";
import type { DocumentStore } from "../../store/user-store.ts";
import { StoredAgentProfiles } from "../agent-profiles.ts";
import type { AgentPreferences, ProviderHosts, Settings } from "../api.ts";
import { StoredLlmProfiles, toModelConfig } from "../profiles.ts";
import { toUserInfo } from "../user-info.ts";
import { StoredWorkspaces } from "../workspaces.ts";
import { AgentServerSettingsView } from "./agent-server.ts";
import type { SettingChecks } from "./checks.ts";
import { SettingsRepository } from "./repository.ts";
import { mergeV0, viewV0 } from "./v0.ts";
import { type MergeV1Options, mergeV1, viewV1 } from "./v1.ts";

const condenserDefaults: CondenserSettings = { ...Create(CondenserSettings), max_tokens: null };

/** Default number of steps per run (app-server.md section 5, conversation_settings). */
const defaultMaxIterations = 500;

const noProviders: ProviderHosts = Object.freeze({});
const noServers: McpServers = Object.freeze({});

export interface SettingsDeps {
  /** `provider_tokens_set` of a user. */
  providerHosts?: (userId: string) => Promise<ProviderHosts>;
  /** Called for every secret that is stored or read. */
  onSecret?: (value: string, userId: string) => void;
  checks?: SettingChecks;
}

/** Settings in a store of encrypted documents. */
export class StoredSettings implements Settings {
  readonly profiles: StoredLlmProfiles;
  readonly agentProfiles: StoredAgentProfiles;
  readonly agentServer: AgentServerSettingsView;
  readonly workspaces: StoredWorkspaces;
  readonly #documents: SettingsRepository;
  readonly #providerHosts: (userId: string) => Promise<ProviderHosts>;

  constructor(
    store: DocumentStore,
    { providerHosts = async () => noProviders, onSecret, checks }: SettingsDeps = {},
  ) {
    this.#documents = new SettingsRepository(store, { onSecret, checks });
    this.#providerHosts = providerHosts;
    this.profiles = new StoredLlmProfiles(this.#documents);
    this.agentProfiles = new StoredAgentProfiles(this.#documents);
    this.agentServer = new AgentServerSettingsView(this.#documents);
    this.workspaces = new StoredWorkspaces(this.#documents);
  }

  async view(userId: string): Promise<SettingsView> {
    const [document, hosts] = await Promise.all([this.#documents.get(userId), this.#providerHosts(userId)]);
    return viewV0(document, hosts);
  }

  async viewV1(userId: string): Promise<object | undefined> {
    const [document, hosts] = await Promise.all([this.#documents.find(userId), this.#providerHosts(userId)]);
    return document && { ...viewV1(document), provider_tokens_set: hosts };
  }

  async me(userId: string, options: { exposeSecrets: boolean }): Promise<UserInfo> {
    const [document, hosts] = await Promise.all([this.#documents.get(userId), this.#providerHosts(userId)]);
    return toUserInfo(userId, document, hosts, options);
  }

  async update(userId: string, change: SettingsUpdate): Promise<void> {
    await this.#documents.change(userId, (document) => ({
      document: mergeV0(document, change),
      result: undefined,
    }));
  }

  async updateV1(userId: string, change: SettingsV1Update, merging: MergeV1Options = {}): Promise<void> {
    await this.#documents.change(userId, (document) => ({
      document: mergeV1(document, change, merging),
      result: undefined,
    }));
  }

  async model(userId: string): Promise<Partial<ModelConfig>> {
    const { agent_settings: agent } = await this.#documents.get(userId);
    return toModelConfig(agent?.llm ?? {}, userId);
  }

  profileModel(userId: string, name: string): Promise<Partial<ModelConfig> | undefined> {
    return this.profiles.model(userId, name);
  }

  async mcpServer(userId: string, name: string): Promise<McpServer | undefined> {
    const servers = await this.mcpServers(userId);
    return Object.hasOwn(servers, name) ? servers[name] : undefined;
  }

  async mcpServers(userId: string): Promise<McpServers> {
    return (await this.#documents.get(userId)).agent_settings?.mcp_config ?? noServers;
  }

  async agent(userId: string): Promise<AgentPreferences> {
    const document = await this.#documents.get(userId);
    const agent = document.agent_settings ?? {};
    const { system_message_suffix, user_message_suffix, disabled_skills, load_memory } =
      agent.agent_context ?? {};
    return {
      maxIterations: document.conversation_settings?.max_iterations ?? defaultMaxIterations,
      maxBudgetPerTask: document.max_budget_per_task ?? null,
      disabledSkills: [...(document.disabled_skills ?? []), ...(disabled_skills ?? [])],
      gitFullClone: document.git_full_clone ?? false,
      gitUserName: document.git_user_name || null,
      gitUserEmail: document.git_user_email || null,
      titleLlmProfile: document.title_llm_profile || null,
      marketplaces: document.registered_marketplaces ?? [],
      systemMessageSuffix: system_message_suffix || null,
      userMessageSuffix: user_message_suffix || null,
      tools: agent.tools ?? null,
      toolConcurrencyLimit: agent.tool_concurrency_limit ?? 1,
      enableSubAgents: agent.enable_sub_agents ?? false,
      enableSwitchLlmTool: agent.enable_switch_llm_tool ?? true,
      loadMemory: load_memory ?? false,
      condenser: fillDefaults(condenserDefaults, agent.condenser),
      mcpServers: agent.mcp_config ?? {},
    };
  }
}

/** Replaces absent and null fields by defaults. */
function fillDefaults<T extends object>(
  defaults: T,
  given: { [K in keyof T]?: T[K] | null } | null | undefined,
): T {
  return {
    ...defaults,
    ...Object.fromEntries(Object.entries(given ?? {}).filter(([, value]) => value !== null)),
  };
}
