import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { LlmConfig } from "./llm.ts";
import { McpServers, PostedMcpServers } from "./mcp.ts";
import { type Diff, diffOf, nullable, optionalText, secretText, shown } from "./setting-field.ts";
import { groupingStrategies, McpConfig } from "./settings.ts";

const on = { depends_on: ["enabled"] };
const critic = { depends_on: ["critic_enabled"] };

/** When and how a long conversation is summarised. */
export const CondenserSettings = Type.Object({
  condenser_kind: StringEnum(["llm_summarizing", "no_op"], { default: "llm_summarizing", ...shown() }),
  enabled: Type.Boolean({
    default: true,
    ...shown({ label: "Enable memory condensation", prominence: "critical" }),
  }),
  max_size: Type.Integer({
    minimum: 20,
    maximum: 1_000_000,
    default: 240,
    ...shown({ label: "Max size", ...on }),
  }),
  max_tokens: nullable(
    Type.Integer({ minimum: 1, maximum: 1_000_000_000 }),
    shown({ label: "Max tokens", ...on }),
  ),
  keep_first: Type.Integer({
    minimum: 0,
    maximum: 1_000_000,
    default: 2,
    ...shown({ label: "Keep first", ...on }),
  }),
  minimum_progress: Type.Number({ exclusiveMinimum: 0, exclusiveMaximum: 1, default: 0.1, ...shown(on) }),
  hard_context_reset_max_retries: Type.Integer({ minimum: 1, maximum: 1000, default: 5, ...shown(on) }),
  hard_context_reset_context_scaling: Type.Number({
    exclusiveMinimum: 0,
    exclusiveMaximum: 1,
    default: 0.8,
    ...shown(on),
  }),
});

/** How an agent's work is judged, without the key. */
export const CriticSettings = Type.Object({
  critic_enabled: Type.Boolean({
    default: false,
    ...shown({ label: "Enable critic", prominence: "critical" }),
  }),
  critic_mode: StringEnum(["finish_and_message", "all_actions"], {
    default: "finish_and_message",
    ...shown(critic),
  }),
  enable_iterative_refinement: Type.Boolean({
    default: false,
    ...shown({ prominence: "critical", ...critic }),
  }),
  critic_threshold: Type.Number({ minimum: 0, maximum: 1, default: 0.6, ...shown(critic) }),
  max_refinement_iterations: Type.Integer({ minimum: 1, maximum: 1000, default: 3, ...shown(critic) }),
  critic_server_url: optionalText(critic),
  critic_model_name: optionalText(critic),
});

export const VerificationSettings = Type.Object({
  ...CriticSettings.properties,
  critic_api_key: secretText({ label: "Critic API key", ...critic }),
});

/** Which tools an agent has; null: those of its kind. */
export const ToolList = Nullable(
  Type.Array(
    Type.Object({
      name: Type.String({ maxLength: 256 }),
      params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    }),
    {
      maxItems: 100,
    },
  ),
);

/** The agent's context in addition to its prompt. */
export const AgentContext = Type.Object({
  skills: Type.Array(Type.Record(Type.String(), Type.Unknown()), { maxItems: 200, default: [] }),
  system_message_suffix: optionalText(),
  user_message_suffix: optionalText(),
  load_user_skills: Type.Boolean({ default: false }),
  load_public_skills: Type.Boolean({ default: false }),
  load_project_skills: Type.Boolean({ default: false }),
  load_memory: Type.Boolean({
    default: false,
    ...shown({ label: "Persistent memory", prominence: "major" }),
  }),
  disabled_skills: Type.Array(Type.String({ maxLength: 256 }), { maxItems: 1000, default: [] }),
});

/** `agent_settings` (app-server.md section 5). Secrets are null or masked. */
export const AgentSettings = Type.Object({
  schema_version: Type.Integer({ minimum: 1, default: 5 }),
  agent_kind: StringEnum(["openhands"], { default: "openhands" }),
  agent: Type.String({ maxLength: 256, default: "CodeActAgent", ...shown({ prominence: "major" }) }),
  llm: LlmConfig,
  tools: ToolList,
  enable_sub_agents: Type.Boolean({
    default: false,
    ...shown({ label: "Enable sub-agents", prominence: "major" }),
  }),
  enable_switch_llm_tool: Type.Boolean({ default: true, ...shown({ label: "Enable switch LLM tool" }) }),
  tool_concurrency_limit: Type.Integer({ minimum: 1, maximum: 100, default: 1, ...shown() }),
  mcp_config: McpServers,
  agent_context: AgentContext,
  condenser: CondenserSettings,
  verification: VerificationSettings,
});

/** `conversation_settings` (app-server.md section 5). */
export const ConversationSettings = Type.Object({
  schema_version: Type.Integer({ minimum: 1, default: 1 }),
  max_iterations: Type.Integer({
    minimum: 1,
    maximum: 1_000_000,
    default: 500,
    ...shown({ label: "Max iterations", prominence: "major" }),
  }),
  confirmation_mode: Type.Boolean({
    default: false,
    ...shown({ label: "Confirmation mode", prominence: "critical", section: "verification" }),
  }),
  security_analyzer: nullable(StringEnum(["llm", "none"]), {
    default: "llm",
    ...shown({
      label: "Security analyzer",
      prominence: "major",
      depends_on: ["confirmation_mode"],
      section: "verification",
    }),
  }),
});

/** A source of skills and plugins that a user registered. */
export const MarketplaceRegistration = Type.Object({
  name: Type.String({ maxLength: 256 }),
  source: Type.String({ maxLength: 4096 }),
  ref: Type.Optional(Nullable(Type.String({ maxLength: 1024 }))),
  repo_path: Type.Optional(Nullable(Type.String({ maxLength: 4096 }))),
  auto_load: Type.Optional(Type.Boolean({ default: false })),
  scope: Type.Optional(Nullable(StringEnum(["instance", "org", "personal"]))),
});

/** The settable fields of V1 besides `agent_settings` and `conversation_settings`. */
export const PlainSettings = Type.Object({
  language: optionalText(),
  user_version: Nullable(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })),
  remote_runtime_resource_factor: Nullable(Type.Integer({ minimum: 0, maximum: 1024 })),
  enable_sound_notifications: Type.Boolean({ default: false }),
  enable_proactive_conversation_starters: Type.Boolean({ default: true }),
  user_consents_to_analytics: Nullable(Type.Boolean()),
  sandbox_base_container_image: optionalText(),
  sandbox_runtime_container_image: optionalText(),
  disabled_skills: Nullable(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 1000 })),
  search_api_key: secretText(),
  sandbox_api_key: secretText(),
  max_budget_per_task: Nullable(Type.Number({ minimum: 0 })),
  email: optionalText(),
  email_verified: Nullable(Type.Boolean()),
  git_user_name: optionalText(),
  git_user_email: optionalText(),
  title_llm_profile: optionalText(),
  git_full_clone: Type.Boolean({ default: false }),
  v1_enabled: Type.Boolean({ default: true }),
  sandbox_grouping_strategy: StringEnum(groupingStrategies, { default: "NO_GROUPING" }),
  default_sandbox_spec_id: optionalText(),
  registered_marketplaces: Type.Array(MarketplaceRegistration, { maxItems: 100, default: [] }),
});

/** Stored LLM profiles by name. */
export const LlmProfiles = Type.Object({
  profiles: Type.Record(Type.String(), LlmConfig),
  active: Nullable(Type.String()),
});

/** Answer of `GET /api/v1/settings` (app-server.md section 5). */
export const SettingsV1 = Type.Object({
  ...PlainSettings.properties,
  secrets_store: Type.Object({ provider_tokens: Type.Record(Type.String(), Type.Unknown()) }),
  agent_settings: AgentSettings,
  conversation_settings: ConversationSettings,
  llm_profiles: LlmProfiles,
  active_agent_profile_id: Nullable(Type.String()),
  active_agent_profile_revision: Nullable(Type.Integer()),
  inherited_marketplaces: Type.Array(MarketplaceRegistration),
  provider_tokens_set: Nullable(Type.Record(Type.String(), Nullable(Type.String()))),
  llm_api_key_set: Type.Boolean(),
  search_api_key_set: Type.Boolean({ default: false }),
});

/**
 * Response of `GET /api/v1/users/me` (app-server.md section 7): the settings, the id, and the flat
 * fields that released clients read.
 */
export const UserInfo = Type.Object({
  ...SettingsV1.properties,
  id: Nullable(Type.String()),
  agent: Nullable(Type.String()),
  llm_model: Nullable(Type.String()),
  llm_api_key: Nullable(Type.String({ format: "password" })),
  llm_base_url: Nullable(Type.String()),
  max_iterations: Nullable(Type.Integer()),
  confirmation_mode: Nullable(Type.Boolean()),
  security_analyzer: Nullable(Type.String()),
  enable_default_condenser: Type.Boolean(),
  condenser_max_size: Nullable(Type.Integer()),
  mcp_config: McpConfig,
});

/**
 * Body of `POST /api/v1/settings`: top-level fields overwrite, the two `*_diff` are merged deeply,
 * and `mcp_config` inside them replaces the stored one. With an `X-Org-Id` header, as the released
 * GUI sends it, or when a server is null, `mcp_config` is a merge patch instead. Null resets a
 * field; an absent or null `search_api_key`, `sandbox_api_key`, `user_consents_to_analytics` or
 * `disabled_skills` keeps the stored value.
 */
export const SettingsV1Update = Type.Unsafe<SettingsV1Update>(
  Type.Object({
    ...diffOf(PlainSettings).properties,
    agent_settings_diff: Type.Optional(
      Nullable(
        Type.Object({
          ...diffOf(AgentSettings).properties,
          mcp_config: Type.Optional(Nullable(PostedMcpServers)),
        }),
      ),
    ),
    conversation_settings_diff: Type.Optional(Nullable(diffOf(ConversationSettings))),
  }),
);

/** Answer of the two schema routes: what a form needs to show the settings. */
export const SettingsSchema = Type.Object({
  model_name: Type.String(),
  sections: Type.Array(
    Type.Object({
      key: Type.String(),
      label: Type.String(),
      variant: Nullable(Type.String()),
      fields: Type.Array(
        Type.Object({
          key: Type.String(),
          label: Type.String(),
          description: Nullable(Type.String()),
          section: Type.String(),
          section_label: Type.String(),
          value_type: StringEnum(["string", "integer", "number", "boolean", "array", "object"]),
          default: Type.Unknown(),
          prominence: StringEnum(["critical", "major", "minor"]),
          depends_on: Type.Array(Type.String()),
          secret: Type.Boolean(),
          choices: Type.Array(Type.Object({ value: Type.Unknown(), label: Type.String() })),
          variant: Nullable(Type.String()),
        }),
      ),
    }),
  ),
});

export type MarketplaceRegistration = Static<typeof MarketplaceRegistration>;
export type CondenserSettings = Static<typeof CondenserSettings>;
export type AgentSettings = Static<typeof AgentSettings>;
export type ConversationSettings = Static<typeof ConversationSettings>;
export type PlainSettings = Static<typeof PlainSettings>;
export type SettingsV1 = Static<typeof SettingsV1>;
export type UserInfo = Static<typeof UserInfo>;
export type SettingsSchema = Static<typeof SettingsSchema>;
export interface SettingsV1Update extends Diff<PlainSettings> {
  agent_settings_diff?:
    | (Omit<Diff<AgentSettings>, "mcp_config"> & { mcp_config?: PostedMcpServers | null })
    | null;
  conversation_settings_diff?: Diff<ConversationSettings> | null;
}
