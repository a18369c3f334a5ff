import { type Static, type TSchema, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

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

/** How one setting is written and how it is read. */
interface Field<Update extends TSchema = TSchema, View extends TSchema = TSchema> {
  update: Update;
  view: View;
}

const field = <Update extends TSchema, View extends TSchema>(update: Update, view: View) => ({
  update: Type.Optional(Nullable(update)),
  view,
});
const nullable = <Update extends TSchema, View extends TSchema>(update: Update, view: View) =>
  field(update, Nullable(view));
const text = (maxLength = 65_536) => nullable(Type.String({ maxLength }), Type.String());
const secret = () =>
  nullable(Type.String({ format: "password", maxLength: 16_384 }), Type.String({ format: "password" }));
const integer = (minimum: number, maximum: number) =>
  nullable(Type.Integer({ minimum, maximum }), Type.Integer());
const flag = () => nullable(Type.Boolean(), Type.Boolean());
const flagWithDefault = (value: boolean) => field(Type.Boolean(), Type.Boolean({ default: value }));

/** The settable fields, in three parts: the view has others between them. */
const firstFields = {
  language: text(),
  // The limits of V1: both families show what either has stored.
  agent: text(256),
  max_iterations: integer(1, 1_000_000),
  security_analyzer: text(),
  confirmation_mode: flag(),
  llm_model: text(1024),
  llm_api_key: secret(),
  llm_base_url: text(),
  remote_runtime_resource_factor: integer(0, 1024),
};
const secondFields = {
  enable_default_condenser: flagWithDefault(true),
  enable_sound_notifications: flagWithDefault(false),
  enable_proactive_conversation_starters: flagWithDefault(true),
  enable_solvability_analysis: flagWithDefault(true),
  user_consents_to_analytics: flag(),
  sandbox_base_container_image: text(),
  sandbox_runtime_container_image: text(),
  sandbox_grouping_strategy: nullable(StringEnum(groupingStrategies), StringEnum(groupingStrategies)),
  default_sandbox_spec_id: text(),
  mcp_config: nullable(Type.Partial(McpConfig), McpConfig),
  search_api_key: secret(),
  sandbox_api_key: secret(),
  max_budget_per_task: nullable(Type.Number({ minimum: 0 }), Type.Number()),
  condenser_max_size: integer(20, 1_000_000),
  email: text(),
  email_verified: flag(),
  git_user_name: text(),
  git_user_email: text(),
};
const lastFields = { v1_enabled: flagWithDefault(true) };

function pick<Fields extends Record<string, Field>, Side extends keyof Field>(fields: Fields, side: Side) {
  const entries = Object.entries(fields).map(([name, each]) => [name, each[side]]);
  return Object.fromEntries(entries) as { [Name in keyof Fields]: Fields[Name][Side] };
}

/**
 * Body of `POST /api/settings`: any subset of the settable fields; an absent field keeps its stored
 * value (platform.md section 2.1, legacy-gui.md section 3.1). Read-only fields that clients send
 * back (`*_set`, `secrets_store`) are ignored.
 */
export const SettingsUpdate = Type.Object({
  ...pick(firstFields, "update"),
  ...pick(secondFields, "update"),
  ...pick(lastFields, "update"),
});

/**
 * The settings resource (platform.md section 2.1). Secrets are always null; `*_set` says whether
 * one is stored.
 */
export const SettingsView = Type.Object({
  ...pick(firstFields, "view"),
  secrets_store: Type.Object({
    provider_tokens: Type.Record(Type.String(), Type.Unknown()),
    custom_secrets: Type.Record(Type.String(), Type.Unknown()),
  }),
  ...pick(secondFields, "view"),
  provider_tokens_set: Type.Record(Type.String(), Nullable(Type.String())),
  llm_api_key_set: Type.Boolean(),
  search_api_key_set: Type.Boolean({ default: false }),
  ...pick(lastFields, "view"),
});

export type McpConfig = Static<typeof McpConfig>;
export type SettingsUpdate = Static<typeof SettingsUpdate>;
export type SettingsView = Static<typeof SettingsView>;
