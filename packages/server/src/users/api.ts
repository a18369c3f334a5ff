import type { ModelConfig } from "@sandpiper/models/model";
import type { SandboxSecret, SecretInfo } from "@sandpiper/sandbox/network/sandbox-secret";
import type {
  AgentProfile,
  AgentProfileDiagnostics,
  AgentProfileList,
  AgentServerSettings,
  AgentServerSettingsUpdate,
  CondenserSettings,
  LlmDiff,
  MarketplaceRegistration,
  McpServer,
  McpServerPatch,
  McpServers,
  PostedMcpServer,
  ProfileDetail,
  ProfileList,
  ProviderType,
  SaveAgentProfileRequest,
  SaveProfileRequest,
  SettingsUpdate,
  SettingsV1Update,
  SettingsView,
  UserInfo,
} from "@sandpiper/wire";
import type { ConversationSecretsRow, LookupSecretSource } from "../store/conversation-parts.ts";
import type { ApiKeyRow } from "../store/user-store.ts";
import type { Exposure, ShowSecret } from "./settings/fields.ts";
import type { MergeV1Options } from "./settings/v1.ts";
import type { StoredWorkspaces } from "./workspaces.ts";

/** `provider_tokens_set`: git provider -> host, or null for its public service. */
export type ProviderHosts = Readonly<Record<string, string | null>>;

/** Settings of users: one document each, which V0 (platform.md section 2.1) and V1 (app-server.md section 5) read and change. */
export interface Settings {
  /** The V0 resource: secrets are null, `*_set` flags tell. A user who never stored settings reads the defaults. */
  view(userId: string): SettingsView;
  /** The V1 resource; undefined for a user who never stored anything. */
  viewV1(userId: string): object | undefined;
  /** What the user is told about themselves; `exposeSecrets` puts the values of secrets in. */
  me(userId: string, options: { exposeSecrets: boolean }): UserInfo;
  /**
   * Merges the given V0 fields. Null for a secret, `llm_model` or `llm_base_url` keeps what is stored; an empty text clears it
   * (app-server.md section 5, V0 POST).
   */
  update(userId: string, change: SettingsUpdate): Promise<void>;
  /** Merges a V1 change (app-server.md section 5, POST). Throws InvalidParameter for settings that would be too long. */
  updateV1(userId: string, change: SettingsV1Update, merging?: MergeV1Options): Promise<void>;
  /** The model to call for a user, the key included; for the server's own use only. `model` is undefined when none is configured. */
  model(userId: string): Partial<ModelConfig>;
  /** The model of a stored LLM profile, the key included; for the server's own use only. Undefined where there is no such profile. */
  profileModel(userId: string, name: string): Partial<ModelConfig> | undefined;
  /** Values that the agent obeys, with their defaults. */
  agent(userId: string): AgentPreferences;
  /** A stored MCP server, secrets included; for the server's own use only. */
  mcpServer(userId: string, name: string): McpServer | undefined;
  /** All of them, as `mcpServer`: the same object until the settings change. */
  mcpServers(userId: string): McpServers;
  profiles: LlmProfiles;
  agentProfiles: AgentProfiles;
  /** The same settings for clients of the agent server. */
  agentServer: AgentServerSettingsAccess;
  workspaces: StoredWorkspaces;
}

/** The settings in the shape of the agent server (agent-server.md section 9). */
export interface AgentServerSettingsAccess {
  /** `show` replaces each stored secret. */
  view(userId: string, show: ShowSecret): AgentServerSettings;
  /** Applies the named profiles first, then the other fields; MCP servers that are not named stay. Throws InvalidParameter. */
  update(userId: string, change: AgentServerSettingsUpdate): Promise<void>;
  /** Throws McpServerExists, InvalidParameter. */
  createMcpServer(userId: string, name: string, server: PostedMcpServer): Promise<void>;
  /** Throws McpServerNotFound, InvalidParameter. */
  patchMcpServer(userId: string, name: string, patch: McpServerPatch): Promise<void>;
  /** Throws McpServerNotFound. */
  removeMcpServer(userId: string, name: string): Promise<void>;
}

export interface AgentPreferences {
  maxIterations: number;
  /** USD. */
  maxBudgetPerTask: number | null;
  /** Names of skills that are not used. */
  disabledSkills: readonly string[];
  /** Whether repositories are cloned with their whole history. */
  gitFullClone: boolean;
  gitUserName: string | null;
  gitUserEmail: string | null;
  /** LLM profile that makes up titles. */
  titleLlmProfile: string | null;
  /** Sources of skills that the user registered. */
  marketplaces: readonly MarketplaceRegistration[];
  /** Text that every system prompt ends with. */
  systemMessageSuffix: string | null;
  /** Goes along with each message of the user. */
  userMessageSuffix: string | null;
  /** Names of the tools, or sets of tools, that the agent has; null: the usual ones. */
  tools: readonly { name: string }[] | null;
  /** Calls of tools that may run at the same time. */
  toolConcurrencyLimit: number;
  enableSubAgents: boolean;
  enableSwitchLlmTool: boolean;
  /** The agent reads and keeps a memory beyond one conversation. */
  loadMemory: boolean;
  condenser: CondenserSettings;
  /** MCP servers by name, secrets included; for the server's own use only. */
  mcpServers: Readonly<McpServers>;
}

/** Named models (app-server.md section 5, LLM profiles). Names fit `ProfileName`. */
export interface LlmProfiles {
  list(userId: string): ProfileList;
  /** Secrets in it are null unless `exposed`. Throws ProfileNotFound. */
  get(userId: string, name: string, reading?: { exposed?: Exposure }): ProfileDetail;
  /** A model as a client sends it, where masked secrets stand for those of the profile of this name. */
  restoreSecrets(userId: string, name: string, llm: LlmDiff): LlmDiff;
  /** Stores a profile, replacing one of the same name. Throws TooManyProfiles. */
  save(userId: string, name: string, request: SaveProfileRequest): Promise<void>;
  /** Does nothing where there is none. When the one in use goes, the first of the others takes its place, in `agent_settings.llm` too. */
  remove(userId: string, name: string): Promise<void>;
  /** Makes the profile's model that of the settings, and gives its name. Throws ProfileNotFound. */
  activate(userId: string, name: string): Promise<string | null>;
  /** Throws ProfileNotFound, ProfileExists. */
  rename(userId: string, name: string, newName: string): Promise<void>;
}

/** Named ways to run an agent (agent-server.md section 9, agent-profiles). Names fit `AgentProfileName`. */
export interface AgentProfiles {
  list(userId: string): AgentProfileList;
  /** Throws ProfileNotFound. */
  get(userId: string, name: string): AgentProfile;
  /** `id` in either form. */
  byId(userId: string, id: string): AgentProfile | undefined;
  /** Stores a profile; one of the same name keeps its id and gets the next revision. Throws TooManyProfiles. */
  save(userId: string, name: string, request: SaveAgentProfileRequest): Promise<void>;
  /** Does nothing where there is none. */
  remove(userId: string, name: string): Promise<void>;
  /** Throws ProfileNotFound, ProfileExists. */
  rename(userId: string, name: string, newName: string): Promise<void>;
  /** The profile that starts use which name none. */
  active(userId: string): AgentProfile | undefined;
  /** Makes a profile the active one; `agent_settings` stay. Throws ProfileNotFound, and InvalidParameter for a missing LLM profile. */
  activate(userId: string, id: string): Promise<AgentProfile>;
  /** What the profile comes to now, without changing anything. Throws ProfileNotFound. */
  diagnose(userId: string, name: string): AgentProfileDiagnostics;
}

/** Custom secrets and provider tokens of users, encrypted at rest (app-server.md section 6). Values leave only by the methods that say so. */
export interface Secrets {
  /** Custom secrets without their values, by name. */
  list(userId: string): readonly SecretInfo[];
  /** The value of a custom secret, or of a provider token under its name (`github_token`); for injection at the egress proxy and for holders of a sandbox's key. */
  value(userId: string, name: string): string | undefined;
  /**
   * Stores a custom secret. One of the same name is replaced, and what is left out (`description`, `hosts`) stays as it was; with
   * `replace: false` it throws SecretExists. Throws TooManySecrets.
   */
  put(userId: string, secret: SecretChange & { value: string }, options: { replace: boolean }): Promise<void>;
  /** Throws SecretNotFound, SecretExists. The value stays, and what is left out too. */
  rename(userId: string, name: string, to: SecretChange): Promise<void>;
  /** Throws SecretNotFound. */
  remove(userId: string, name: string): Promise<void>;
  /** Tokens of git providers, for the clients in `git/` and for clones. */
  providers(userId: string): ReadonlyMap<ProviderType, ProviderToken>;
  /** What clients see of them (`provider_tokens_set`): provider -> host or null. The same object until it changes. */
  providerHosts(userId: string): Readonly<Record<string, string | null>>;
  /** Replaces all: an empty token keeps the stored one and updates its host; providers that are absent are dropped. */
  setProviders(
    userId: string,
    tokens: ReadonlyMap<ProviderType, { token: string | null; host: string | null }>,
  ): Promise<void>;
  /**
   * Adds secrets that only this conversation's sandbox has (`secrets` of a start request); those of the same name are replaced. `sources` tells of those that were
   * fetched.
   */
  putConversation(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Readonly<Record<string, string>>,
    about?: Pick<ConversationSecretsRow, "descriptions" | "sources">,
  ): Promise<void>;
  /** Takes values that were fetched again, of those secrets that are still the same. */
  refreshConversation(
    owner: { userId: string; conversationId: string },
    found: Readonly<Record<string, { source: LookupSecretSource; value: string }>>,
  ): Promise<void>;
  /** Removes a conversation's secrets; deleting a conversation from the store does it too. An unknown one is fine. */
  removeConversation(conversationId: string): Promise<void>;
  /**
   * Everything that applies in a sandbox, by name: the user's provider tokens, over them custom secrets, over them those of the sandbox's
   * conversations. Cheap, to be asked at each use.
   */
  forSandbox(userId: string, sandboxId: string): readonly SandboxSecret[];
}

export type SecretChange = Pick<SecretInfo, "name"> & Partial<SecretInfo>;

export interface ProviderToken {
  token: string;
  /** `github.example.com`, with `:port` and without a scheme; null for the provider's public service. */
  host: string | null;
}

/** Who is behind a key, and what the key may do. */
export interface KeyHolder {
  readonly userId: string;
  readonly keyId: string;
  /** The key may read, and change nothing. */
  readonly readOnly: boolean;
  /** When the key ends, ms since the epoch; null: never. */
  readonly keyExpiresAt: number | null;
}

export interface NewApiKey {
  name: string;
  /** Ms since the epoch; null: never. */
  expiresAt: number | null;
  readOnly: boolean;
}

/** API keys of users. */
export interface ApiKeys {
  /** The holder of a key, or undefined; an expired key is unknown. Constant time in the number of keys. */
  authenticate(key: string): KeyHolder | undefined;
  /** Makes a key that may do everything and never expires, in the place of one of the same name. Gives its text, which is not stored. */
  create(userId: string, name: string): Promise<string>;
  /** Makes a key of a new name. Throws KeyExists, TooManyKeys. */
  add(userId: string, key: NewApiKey): Promise<{ key: string; row: ApiKeyRow }>;
  /** Makes sure that this exact key works (SANDPIPER_API_KEY). */
  adopt(userId: string, name: string, key: string): Promise<void>;
  /** Oldest first; of all users without `userId`. */
  list(userId?: string): ApiKeyRow[];
  /** Ends a key and the logins that were made with it; false where there is none. */
  remove(id: string): Promise<boolean>;
}

/** Logins of browsers: each stands for the key that was exchanged for it. */
export interface Logins {
  /** Begins a login and gives its token, which is not stored, and when it ends (ms since the epoch). */
  begin(holder: KeyHolder): Promise<{ token: string; expiresAt: number }>;
  /** The holder of the login's key; undefined when the login or its key has ended. */
  authenticate(token: string): KeyHolder | undefined;
  end(token: string): Promise<void>;
}
