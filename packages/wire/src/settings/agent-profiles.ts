import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { ProfileMutation } from "./profiles.ts";
import { diffOf } from "./setting-field.ts";
import { AgentContext, AgentSettings, CondenserSettings, CriticSettings } from "./settings-v1.ts";

/** Name of an agent profile. */
export const AgentProfileName = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$",
});

const refs = Nullable(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 100 }));
const { agent, tools, enable_sub_agents, enable_switch_llm_tool, tool_concurrency_limit } =
  AgentSettings.properties;

const given = {
  llm_profile_ref: Type.String({ minLength: 1, maxLength: 64 }),
};

/**
 * A named agent configuration: it refers to an LLM profile and MCP servers by name and has no
 * secrets (app-server openapi OpenHandsAgentProfile). `mcp_server_refs` null means all servers, and
 * `secret_refs` null all secrets of the user. A rename keeps `id`; `revision` counts changes.
 */
export const AgentProfile = Type.Object({
  schema_version: Type.Integer({ minimum: 1, default: 2 }),
  id: Type.String({ format: "uuid" }),
  name: Type.String(),
  revision: Type.Integer({ minimum: 0, default: 0 }),
  agent_kind: StringEnum(["openhands"], { default: "openhands" }),
  ...given,
  mcp_server_refs: refs,
  secret_refs: refs,
  persona: Nullable(Type.String({ minLength: 1, maxLength: 65_536 })),
  /** Kept for their owners; without effect here, like `meta_profile_ref`. */
  public_skills: refs,
  enable_classify_and_switch_llm_tool: Type.Boolean({ default: false }),
  meta_profile_ref: Nullable(Type.String({ minLength: 1, maxLength: 64 })),
  agent,
  tools,
  system_message_suffix: AgentContext.properties.system_message_suffix,
  disabled_skills: AgentContext.properties.disabled_skills,
  condenser: CondenserSettings,
  verification: CriticSettings,
  enable_sub_agents,
  enable_switch_llm_tool,
  tool_concurrency_limit,
});

/**
 * Body of `POST /api/agent-profiles/{name}`: the path gives the name; identity and revision are
 * ignored. Unknown fields are refused (agent-server-1.58.md 5.2).
 */
export const SaveAgentProfileRequest = Type.Unsafe<SaveAgentProfileRequest>(
  Type.Object(
    {
      ...diffOf(
        Type.Object({
          ...AgentProfile.properties,
          name: Type.Unknown(),
          id: Type.Unknown(),
          revision: Type.Unknown(),
          schema_version: Type.Unknown(),
        }),
      ).properties,
      ...given,
    },
    { additionalProperties: false },
  ),
);

/** Body of `…/materialize`: a draft, which takes the path's name; without it the stored profile. */
export const MaterializeAgentProfileRequest = Type.Object(
  { profile: Type.Optional(Nullable(SaveAgentProfileRequest)) },
  { default: {} },
);

export const AgentProfileInfo = Type.Object({
  id: Nullable(Type.String()),
  name: Type.String(),
  agent_kind: Type.String({ default: "openhands" }),
  revision: Nullable(Type.Integer()),
  llm_profile_ref: Nullable(Type.String()),
  mcp_server_refs: refs,
});
export const AgentProfileList = Type.Object({
  profiles: Type.Array(AgentProfileInfo),
  active_agent_profile_id: Nullable(Type.String()),
});
export const AgentProfileDetail = Type.Object({ name: Type.String(), profile: AgentProfile });
export const AgentProfileMutation = ProfileMutation;
export const RenameAgentProfileRequest = Type.Object({ new_name: AgentProfileName });
export const ActivatedAgentProfile = Type.Object({
  id: Type.String(),
  message: Type.String(),
  agent_settings_applied: Type.Boolean({ default: false }),
});

/**
 * A profile resolved against the current settings (`…/materialize`). Missing references are listed,
 * not errors.
 */
export const AgentProfileDiagnostics = Type.Object({
  agent_kind: Type.String(),
  valid: Type.Boolean({ default: false }),
  errors: Type.Array(Type.String()),
  llm_profile_ref: Nullable(Type.String()),
  llm_profile_resolved: Type.Boolean({ default: false }),
  llm_api_key_set: Type.Boolean({ default: false }),
  mcp_server_refs: refs,
  resolved_mcp_config_keys: Type.Array(Type.String()),
  resolved_mcp_servers: Type.Array(Type.String()),
  dangling_mcp_server_refs: Type.Array(Type.String()),
  disabled_skills: Type.Array(Type.String()),
  secret_refs: refs,
  resolved_skills: Type.Array(Type.String()),
  acp_api_key_secret_name: Nullable(Type.String()),
  acp_base_url_secret_name: Nullable(Type.String()),
  acp_file_secret_names: Type.Array(Type.String()),
  resolved_settings: Nullable(Type.Record(Type.String(), Type.Unknown())),
});

export type AgentProfile = Static<typeof AgentProfile>;
export type SaveAgentProfileRequest = { [Key in keyof AgentProfile]?: AgentProfile[Key] | null } & {
  llm_profile_ref: string;
};
export type AgentProfileDiagnostics = Static<typeof AgentProfileDiagnostics>;
export type AgentProfileList = Static<typeof AgentProfileList>;
