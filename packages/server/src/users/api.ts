import type { ModelConfig } from "@sandpiper/models/model";
import type { SandboxSecret, SecretInfo } from "@sandpiper/sandbox/network/sandbox-secret";
import type {
  AgentProfile,
  AgentProfileDiagnostics,
  AgentProfileList,
  AgentServerSettings,
  AgentServerSettingsUpdate,
  Behaviour,
  BehaviourPart,
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

/**
 * One settings document per user, shared by V0 (platform.md 2.1) and V1 (app-server.md section 5).
 */
export interface Settings {
  /** The V0 resource with null secrets and `*_set` flags; the defaults when nothing is stored. */
  view(userId: string): Promise<SettingsView>;
  /** The V1 resource; undefined when nothing is stored. */
  viewV1(userId: string): Promise<object | undefined>;
  /** The profile of the user; `exposeSecrets` includes the values of secrets. */
  me(userId: string, options: { exposeSecrets: boolean }): Promise<UserInfo>;
  /**
   * Merges V0 fields. Null keeps a secret, `llm_model` or `llm_base_url`; an empty string clears it
   * (app-server.md section 5, V0 POST).
   */
  update(userId: string, change: SettingsUpdate): Promise<void>;
  /** Merges a V1 change (app-server.md section 5, POST). Throws InvalidParameter if too long. */
  updateV1(userId: string, change: SettingsV1Update, merging?: MergeV1Options): Promise<void>;
  /** The user's model with its key, for the server only; `model` is undefined when none is set. */
  model(userId: string): Promise<Partial<ModelConfig>>;
  /** The model of an LLM profile with its key, for the server only; undefined when unknown. */
  profileModel(userId: string, name: string): Promise<Partial<ModelConfig> | undefined>;
  /** Settings of the agent, with their defaults. */
  agent(userId: string): Promise<AgentPreferences>;
  /** A stored MCP server with its secrets, for the server only. */
  mcpServer(userId: string, name: string): Promise<McpServer | undefined>;
  /** All MCP servers with their secrets: the same object until the settings change. */
  mcpServers(userId: string): Promise<McpServers>;
  profiles: LlmProfileService;
  agentProfiles: AgentProfiles;
  /** The settings in the shape of the agent server. */
  agentServer: AgentServerSettingsAccess;
  workspaces: StoredWorkspaces;
}

/** The settings in the shape of the agent server (agent-server.md section 9). */
export interface AgentServerSettingsAccess {
  /** `show` replaces each stored secret. */
  view(userId: string, show: ShowSecret): Promise<AgentServerSettings>;
  /**
   * Applies named profiles, then other fields; unnamed MCP servers stay. Throws InvalidParameter.
   */
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
  disabledSkills: readonly string[];
  /** Clone repositories with their whole history. */
  gitFullClone: boolean;
  gitUserName: string | null;
  gitUserEmail: string | null;
  /** LLM profile that generates titles. */
  titleLlmProfile: string | null;
  /** Sources of skills that the user registered. */
  marketplaces: readonly MarketplaceRegistration[];
  /** Appended to every system prompt. */
  systemMessageSuffix: string | null;
  /** Appended to each message of the user. */
  userMessageSuffix: string | null;
  /** Names of tools or tool sets; null: the defaults. */
  tools: readonly { name: string }[] | null;
  /** Maximum number of concurrent tool calls. */
  toolConcurrencyLimit: number;
  enableSubAgents: boolean;
  enableSwitchLlmTool: boolean;
  /** The agent has a memory across conversations. */
  loadMemory: boolean;
  condenser: CondenserSettings;
  /** MCP servers by name with their secrets, for the server only. */
  mcpServers: Readonly<McpServers>;
}

/** Named models (app-server.md section 5, LLM profiles). Names fit `ProfileName`. */
export interface LlmProfileService {
  list(userId: string): Promise<ProfileList>;
  /** Secrets are null unless `exposed`. Throws ProfileNotFound. */
  get(userId: string, name: string, reading?: { exposed?: Exposure }): Promise<ProfileDetail>;
  /** Replaces masked secrets in a client's model by those of the profile of this name. */
  restoreSecrets(userId: string, name: string, llm: LlmDiff): Promise<LlmDiff>;
  /** Creates or replaces a profile. Throws TooManyProfiles. */
  save(userId: string, name: string, request: SaveProfileRequest): Promise<void>;
  /**
   * Removes a profile if it exists. The first other one replaces an active one, also in
   * `agent_settings.llm`. Throws ProfileInUse when agent profiles name it.
   */
  remove(userId: string, name: string): Promise<void>;
  /**
   * Copies the profile's model to the settings; returns the model's name. Throws ProfileNotFound.
   */
  activate(userId: string, name: string): Promise<string | null>;
  /** Throws ProfileNotFound, ProfileExists. */
  rename(userId: string, name: string, newName: string): Promise<void>;
}

/**
 * Named ways to run an agent (agent-server.md section 9, agent-profiles). Names fit
 * `AgentProfileName`.
 */
export interface AgentProfiles {
  list(userId: string): Promise<AgentProfileList>;
  /** Throws ProfileNotFound. */
  get(userId: string, name: string): Promise<AgentProfile>;
  /** `id` in either form. */
  byId(userId: string, id: string): Promise<AgentProfile | undefined>;
  /**
   * Creates a profile, or replaces it with the next revision and the same id. Throws
   * TooManyProfiles.
   */
  save(userId: string, name: string, request: SaveAgentProfileRequest): Promise<void>;
  /** Removes a profile if it exists. */
  remove(userId: string, name: string): Promise<void>;
  /** Throws ProfileNotFound, ProfileExists. */
  rename(userId: string, name: string, newName: string): Promise<void>;
  /** The profile of starts that name none; undefined for the seeded one, which is the settings. */
  active(userId: string): Promise<AgentProfile | undefined>;
  /** Whether the profile is the seeded `default`, which stands for the settings as they are. */
  isSeeded(userId: string, profile: AgentProfile): Promise<boolean>;
  /**
   * Activates a profile without changing `agent_settings`. Throws ProfileNotFound, and
   * InvalidParameter when its LLM profile is missing.
   */
  activate(userId: string, id: string): Promise<AgentProfile>;
  /**
   * Resolves the profile, or a draft of it that nobody has to have stored, against the current
   * settings, changing nothing. Throws ProfileNotFound.
   */
  diagnose(userId: string, name: string, draft?: SaveAgentProfileRequest): Promise<AgentProfileDiagnostics>;
}

/**
 * What a conversation's secrets have beside their values. A `scope` limits the user's other secrets
 * in the sandbox.
 */
export type AboutSecrets = Partial<Pick<ConversationSecretsRow, "descriptions" | "sources" | "scope">>;

/** Custom secrets and provider tokens of users, encrypted at rest (app-server.md section 6). */
export interface Secrets {
  /** Custom secrets without their values, by name. */
  list(userId: string): Promise<readonly SecretInfo[]>;
  /**
   * The value of a custom secret or provider token (`github_token`), for the proxy and sandbox
   * keys.
   */
  value(userId: string, name: string): Promise<string | undefined>;
  /**
   * Stores a custom secret. An existing one keeps a `description` or `hosts` that are left out;
   * with `replace: false` it causes SecretExists. Throws TooManySecrets.
   */
  put(userId: string, secret: SecretChange & { value: string }, options: { replace: boolean }): Promise<void>;
  /** Renames a secret; its value and omitted fields stay. Throws SecretNotFound, SecretExists. */
  rename(userId: string, name: string, to: SecretChange): Promise<void>;
  /** Throws SecretNotFound. */
  remove(userId: string, name: string): Promise<void>;
  /** Tokens of git providers, for the clients in `git/` and for clones. */
  providers(userId: string): Promise<ReadonlyMap<ProviderType, ProviderToken>>;
  /** Provider -> host or null (`provider_tokens_set`): the same object until the tokens change. */
  providerHosts(userId: string): Promise<Readonly<Record<string, string | null>>>;
  /** Replaces all tokens; an empty token keeps the stored one and updates its host. */
  setProviders(
    userId: string,
    tokens: ReadonlyMap<ProviderType, { token: string | null; host: string | null }>,
  ): Promise<void>;
  /**
   * Makes the record of a new conversation's secrets, which the caller stores; undefined: it has
   * neither values nor a scope. Throws InvalidParameter.
   */
  newConversation(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Readonly<Record<string, string>>,
    about?: AboutSecrets,
  ): ConversationSecretsRow | undefined;
  /** Adds or replaces secrets of one conversation. */
  putConversation(
    owner: { userId: string; conversationId: string; sandboxId: string },
    values: Readonly<Record<string, string>>,
    about?: AboutSecrets,
  ): Promise<void>;
  /** Stores values that were fetched again, unless the source of a secret has changed. */
  refreshConversation(
    owner: { userId: string; conversationId: string },
    found: Readonly<Record<string, { source: LookupSecretSource; value: string }>>,
  ): Promise<void>;
  /** Removes a conversation's secrets, if any; the deletion of the conversation does so too. */
  removeConversation(conversationId: string): Promise<void>;
  /**
   * The secrets of a sandbox. Those of its conversations override the user's custom secrets, which
   * override provider tokens. With a scope of a conversation, only those that it names apply; with
   * several, those that all name. Cheap: call it for each use.
   */
  forSandbox(userId: string, sandboxId: string): Promise<readonly SandboxSecret[]>;
}

export type SecretChange = Pick<SecretInfo, "name"> & Partial<SecretInfo>;

export interface ProviderToken {
  token: string;
  /**
   * `github.example.com`, with `:port` and without a scheme; null for the provider's public
   * service.
   */
  host: string | null;
}

/** The user of a key, and the rights of the key. */
export interface KeyHolder {
  readonly userId: string;
  readonly keyId: string;
  readonly readOnly: boolean;
  /** When the key expires, ms since the epoch; null: never. */
  readonly keyExpiresAt: number | null;
  /**
   * The name of the key, or of the login that was made with it, inside of credentials that are made
   * from either. It grants nothing.
   */
  readonly source: string;
}

/** For whom credentials are put into a response. */
export type Viewer = Pick<KeyHolder, "userId" | "source">;

/** Keys and logins as the sources of other credentials, which end with them. */
export interface CredentialSources {
  /** The holder of a source; undefined when it was revoked, logged out or has expired. */
  holder(source: string): Promise<KeyHolder | undefined>;
  /** Calls the listener after this process has changed keys or logins. */
  onChange(listener: () => void): void;
}

export interface ApiKeyOptions {
  name: string;
  /** Ms since the epoch; null: never. */
  expiresAt: number | null;
  readOnly: boolean;
}

/** API keys of users. */
export interface ApiKeys {
  /**
   * The holder of a key; undefined when it is unknown or expired. Constant time in the number of
   * keys.
   */
  authenticate(key: string): Promise<KeyHolder | undefined>;
  /** Creates or replaces an unlimited key; returns its text, which is not stored. */
  create(userId: string, name: string): Promise<string>;
  /** Creates a key with a new name. Throws KeyExists, TooManyKeys. */
  add(userId: string, key: ApiKeyOptions): Promise<{ key: string; row: ApiKeyRow }>;
  /** Registers a given key (SANDPIPER_API_KEY). */
  adopt(userId: string, name: string, key: string): Promise<void>;
  /** Oldest first; of all users without `userId`. */
  list(userId?: string): Promise<ApiKeyRow[]>;
  /** Removes a key and its logins; false when there is none. */
  remove(id: string): Promise<boolean>;
}

/** Logins of browsers, each obtained with an API key. */
export interface Logins {
  /** Creates a login; returns its token, which is not stored, and its end (ms since the epoch). */
  begin(holder: KeyHolder): Promise<{ token: string; expiresAt: number }>;
  /** The holder of the login's key; undefined when the login or its key has expired. */
  authenticate(token: string): Promise<KeyHolder | undefined>;
  end(token: string): Promise<void>;
}

/** Links that log a browser in once, for people who have no key at hand. */
export interface LoginLinks {
  /** Creates a link of a key; returns its token, which is not stored. It ends after ten minutes. */
  create(holder: Pick<KeyHolder, "keyId">): Promise<string>;
  /**
   * Ends a link and returns for whom a login may begin: a key of its user that lasts, else the
   * link's own key. Undefined when the link was used before, has expired, or its key has ended.
   */
  redeem(token: string): Promise<KeyHolder | undefined>;
}

/** What a project in a sandbox does by itself. */
export interface FoundBehaviour {
  userId: string;
  sandboxId: string;
  /** Folder of the project in the sandbox. */
  workingDir: string;
  /** Where the project comes from; the origin that was found first for its folder stays. */
  origin?: string | undefined;
  /** The folder of which it is a worktree. */
  worktreeOf?: string | undefined;
  parts: readonly BehaviourPart[];
}

/**
 * What projects may do: until a user has accepted all that the projects in a sandbox do by
 * themselves, the sandbox gets no secrets. The one place that decides; others ask `withheld`.
 */
export interface Acceptances {
  /** Stores what was found; undefined when the project only describes. */
  record(found: FoundBehaviour): Promise<Behaviour | undefined>;
  /**
   * The sentence that says why a sandbox gets no secrets, with the link; undefined when it does.
   * Cheap: call it for each use.
   */
  withheld(userId: string, sandboxId: string): Promise<string | undefined>;
  /** The newest behaviour in a sandbox that was not accepted. */
  pending(userId: string, sandboxId: string): Promise<Behaviour | undefined>;
  /** Newest first; those that were found in one sandbox, or all found and accepted ones. */
  list(userId: string, sandboxId?: string): Promise<Behaviour[]>;
  /** Throws BehaviourNotFound, like `accept`. */
  get(userId: string, digest: string): Promise<Behaviour>;
  /**
   * Accepts a behaviour, once. Throws TooManyAcceptances, also for one whose parts are no longer
   * kept.
   */
  accept(userId: string, digest: string): Promise<Behaviour>;
  /** Withdraws an acceptance, if there is one; running sandboxes lose their secrets at once. */
  revoke(userId: string, digest: string): Promise<void>;
}
