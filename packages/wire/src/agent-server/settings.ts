import { type Static, Type } from "typebox";
import { Nullable } from "../common/schema.ts";
import { LlmConfig, type LlmDiff } from "../settings/llm.ts";
import { McpServer, someSecrets } from "../settings/mcp.ts";
import { type Diff, diffOf } from "../settings/setting-field.ts";
import { AgentSettings, ConversationSettings } from "../settings/settings-v1.ts";

/**
 * Response of `GET /api/settings` of the agent server and of every change to the settings
 * (agent-server.md section 9).
 */
export const AgentServerSettings = Type.Object({
  agent_settings: AgentSettings,
  conversation_settings: ConversationSettings,
  llm_api_key_is_set: Type.Boolean(),
  active_profile: Nullable(Type.String()),
  active_agent_profile_id: Nullable(Type.String()),
  misc_settings: Type.Record(Type.String(), Type.Unknown(), {
    description: "what clients keep here for themselves",
  }),
});

/** An MCP server to add. Null for a variable or a header leaves it out. */
export const NewMcpServer = Type.Object({ ...McpServer.properties, env: someSecrets, headers: someSecrets });

/** A change to an MCP server: null takes a field, a variable or a header out, the others stay. */
export const McpServerPatch = Type.Unsafe<McpServerPatch>(
  Type.Object({ ...diffOf(McpServer).properties, env: someSecrets, headers: someSecrets }),
);

/** Changes to MCP servers by name; null removes one. */
export const McpConfigPatch = Type.Record(
  Type.String({ minLength: 1, maxLength: 256 }),
  Nullable(McpServerPatch),
  {
    maxProperties: 300,
  },
);

/** Body of the agent server's `PATCH /api/settings`. */
export const AgentServerSettingsUpdate = Type.Unsafe<AgentServerSettingsUpdate>(
  Type.Object({
    agent_settings_diff: Type.Optional(
      Nullable(
        Type.Object({
          ...diffOf(AgentSettings).properties,
          mcp_config: Type.Optional(Nullable(McpConfigPatch)),
        }),
      ),
    ),
    conversation_settings_diff: Type.Optional(Nullable(diffOf(ConversationSettings))),
    misc_settings_diff: Type.Optional(
      Nullable(
        Type.Record(Type.String(), Type.Unknown(), { description: "merged key by key; null removes one" }),
      ),
    ),
    active_profile: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 64,
          description: "name of the LLM profile whose model becomes that of the settings",
        }),
      ),
    ),
    active_agent_profile_id: Type.Optional(Nullable(Type.String({ maxLength: 128 }))),
  }),
);

/** A model as the agent server's clients send it: what is not known of it is ignored. */
export const PostedLlm = Type.Unsafe<LlmDiff>(diffOf(LlmConfig));

/** Header of reads that can show secrets; without it they are `**********`. */
export const ExposeSecrets = Type.Object({
  "x-expose-secrets": Type.Optional(
    Type.String({
      description:
        "`plaintext`, or `encrypted`: as texts that only this server opens, and only for this user; default: masked",
    }),
  ),
});

export type AgentServerSettings = Static<typeof AgentServerSettings>;
export type McpServerPatch = Diff<McpServer>;
export type McpConfigPatch = Record<string, McpServerPatch | null>;
export interface AgentServerSettingsUpdate {
  agent_settings_diff?:
    | (Omit<Diff<AgentSettings>, "mcp_config"> & { mcp_config?: McpConfigPatch | null })
    | null;
  conversation_settings_diff?: Diff<ConversationSettings> | null;
  misc_settings_diff?: Record<string, unknown> | null;
  active_profile?: string | null;
  active_agent_profile_id?: string | null;
}
