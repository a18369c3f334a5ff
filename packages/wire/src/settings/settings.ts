import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

const text = Type.Optional(Nullable(Type.String({ maxLength: 65_536 })));
const flag = Type.Optional(Nullable(Type.Boolean()));

/** How conversations share sandboxes (app-server.md section 4, reuse rules). */
export const groupingStrategies = [
  "NO_GROUPING",
  "GROUP_BY_NEWEST",
  "LEAST_RECENTLY_USED",
  "FEWEST_CONVERSATIONS",
  "ADD_TO_ANY",
] as const;
export type GroupingStrategy = (typeof groupingStrategies)[number];

const RemoteMcpServer = Type.Object({
  url: Type.String({ minLength: 1, maxLength: 8192 }),
  api_key: Type.Optional(Nullable(Type.String({ format: "password", maxLength: 16_384 }))),
});
const StdioMcpServer = Type.Object({
  name: Type.String({ maxLength: 250 }),
  command: Type.String({ minLength: 1, maxLength: 8192 }),
  args: Type.Optional(Type.Array(Type.String({ maxLength: 65_536 }), { maxItems: 256 })),
  env: Type.Optional(
    Type.Record(Type.String(), Type.String({ format: "password", maxLength: 16_384 }), {
      maxProperties: 100,
    }),
  ),
});
const most = { maxItems: 100 };

/** MCP servers of a user (platform.md section 2.2). */
export const McpConfig = Type.Object({
  sse_servers: Type.Array(RemoteMcpServer, most),
  stdio_servers: Type.Array(StdioMcpServer, most),
  shttp_servers: Type.Array(RemoteMcpServer, most),
});

/**
 * Body of `POST /api/settings`: any subset of the settable fields; what is absent keeps its stored value (platform.md section 2.1,
 * legacy-gui.md section 3.1). Read-only fields that clients send back (`*_set`, `secrets_store`) are ignored.
 */
export const SettingsUpdate = Type.Object({
  language: text,
  // As long as V1 takes them: both families show what either has stored.
  agent: Type.Optional(Nullable(Type.String({ maxLength: 256 }))),
  max_iterations: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1_000_000 }))),
  security_analyzer: text,
  confirmation_mode: flag,
  llm_model: Type.Optional(Nullable(Type.String({ maxLength: 1024 }))),
  llm_api_key: Type.Optional(Nullable(Type.String({ format: "password", maxLength: 16_384 }))),
  llm_base_url: text,
  remote_runtime_resource_factor: Type.Optional(Nullable(Type.Integer({ minimum: 0, maximum: 1024 }))),
  enable_default_condenser: flag,
  enable_sound_notifications: flag,
  enable_proactive_conversation_starters: flag,
  enable_solvability_analysis: flag,
  user_consents_to_analytics: flag,
  sandbox_base_container_image: text,
  sandbox_runtime_container_image: text,
  sandbox_grouping_strategy: Type.Optional(Nullable(StringEnum(groupingStrategies))),
  default_sandbox_spec_id: text,
  mcp_config: Type.Optional(Nullable(Type.Partial(McpConfig))),
  search_api_key: Type.Optional(Nullable(Type.String({ format: "password", maxLength: 16_384 }))),
  sandbox_api_key: Type.Optional(Nullable(Type.String({ format: "password", maxLength: 16_384 }))),
  max_budget_per_task: Type.Optional(Nullable(Type.Number({ minimum: 0 }))),
  condenser_max_size: Type.Optional(Nullable(Type.Integer({ minimum: 20, maximum: 1_000_000 }))),
  email: text,
  email_verified: flag,
  git_user_name: text,
  git_user_email: text,
  v1_enabled: flag,
});

/** The settings resource (platform.md section 2.1). The three secret fields are always null; the `*_set` flags say whether one is stored. */
export const SettingsView = Type.Object({
  language: Nullable(Type.String()),
  agent: Nullable(Type.String()),
  max_iterations: Nullable(Type.Integer()),
  security_analyzer: Nullable(Type.String()),
  confirmation_mode: Nullable(Type.Boolean()),
  llm_model: Nullable(Type.String()),
  llm_api_key: Nullable(Type.String({ format: "password" })),
  llm_base_url: Nullable(Type.String()),
  remote_runtime_resource_factor: Nullable(Type.Integer()),
  secrets_store: Type.Object({
    provider_tokens: Type.Record(Type.String(), Type.Unknown()),
    custom_secrets: Type.Record(Type.String(), Type.Unknown()),
  }),
  enable_default_condenser: Type.Boolean({ default: true }),
  enable_sound_notifications: Type.Boolean({ default: false }),
  enable_proactive_conversation_starters: Type.Boolean({ default: true }),
  enable_solvability_analysis: Type.Boolean({ default: true }),
  user_consents_to_analytics: Nullable(Type.Boolean()),
  sandbox_base_container_image: Nullable(Type.String()),
  sandbox_runtime_container_image: Nullable(Type.String()),
  sandbox_grouping_strategy: Nullable(StringEnum(groupingStrategies)),
  default_sandbox_spec_id: Nullable(Type.String()),
  mcp_config: Nullable(McpConfig),
  search_api_key: Nullable(Type.String({ format: "password" })),
  sandbox_api_key: Nullable(Type.String({ format: "password" })),
  max_budget_per_task: Nullable(Type.Number()),
  condenser_max_size: Nullable(Type.Integer()),
  email: Nullable(Type.String()),
  email_verified: Nullable(Type.Boolean()),
  git_user_name: Nullable(Type.String()),
  git_user_email: Nullable(Type.String()),
  provider_tokens_set: Type.Record(Type.String(), Nullable(Type.String())),
  llm_api_key_set: Type.Boolean(),
  search_api_key_set: Type.Boolean({ default: false }),
  v1_enabled: Type.Boolean({ default: true }),
});

export type McpConfig = Static<typeof McpConfig>;
export type SettingsUpdate = Static<typeof SettingsUpdate>;
export type SettingsView = Static<typeof SettingsView>;
