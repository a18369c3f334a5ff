import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { ConversationHooks, hookEvents } from "../conversations/conversation-work.ts";
import { PluginSpec } from "../conversations/conversations.ts";
import { MarketplaceRegistration } from "../settings/settings-v1.ts";
import { ConversationSecrets } from "./conversations.ts";

const projectDir = Type.Optional(
  Nullable(
    Type.String({
      maxLength: 4_000,
      description: "default: the sandbox's working folder; relative ones start there",
    }),
  ),
);

/** Body of `POST /api/skills` (agent-server.md section 9). */
export const SkillsRequest = Type.Object({
  load_public: Type.Optional(
    Type.Boolean({ default: true, description: "skills of this server and of the user's marketplaces" }),
  ),
  load_user: Type.Optional(
    Type.Boolean({ default: true, description: "skills of the home folder in the sandbox" }),
  ),
  load_project: Type.Optional(Type.Boolean({ default: true })),
  load_org: Type.Optional(
    Type.Boolean({ default: true, description: "accepted; there are no organizations" }),
  ),
  project_dir: projectDir,
});

export const LoadedSkill = Type.Object({
  name: Type.String(),
  type: StringEnum(["repo", "knowledge", "agentskills"]),
  content: Type.String(),
  triggers: Type.Array(Type.String()),
  source: Nullable(Type.String({ description: "a path in the sandbox, or `global`" })),
  description: Nullable(Type.String()),
  is_agentskills_format: Type.Boolean({ default: false }),
  disable_model_invocation: Type.Boolean({ default: false }),
});

export const LoadedSkills = Type.Object({
  skills: Type.Array(LoadedSkill),
  sources: Type.Record(Type.String(), Type.Integer(), { description: "how many came from where" }),
});

/** Answer of `GET /api/skills/catalog` (agent-server-1.58.md section 4.2). */
export const SkillCatalog = Type.Object({
  skills: Type.Array(
    Type.Object({
      ...LoadedSkill.properties,
      origin: StringEnum(["public", "user"], { description: "user: of the home folder" }),
    }),
  ),
});

export const SkillsSynced = Type.Object({ status: StringEnum(["success", "error"]), message: Type.String() });
export const InstalledSkills = Type.Object({ skills: Type.Array(Type.Unknown(), { maxItems: 0 }) });
export const InstalledPlugins = Type.Object({ plugins: Type.Array(Type.Unknown(), { maxItems: 0 }) });
/** `POST /api/sub-agents` (agent-server.md section 9). */
export const SubAgentsRequest = Type.Object({
  load_user: Type.Optional(Type.Boolean({ default: true })),
  load_project: Type.Optional(Type.Boolean({ default: true, description: "those of plugins too" })),
  load_builtin: Type.Optional(Type.Boolean({ default: true })),
  project_dir: projectDir,
});
export const SubAgents = Type.Object({
  agents: Type.Array(
    Type.Object({
      name: Type.String(),
      description: Type.String(),
      model: Type.String({ description: "an LLM profile, or `inherit`" }),
      color: Nullable(Type.String()),
      tools: Type.Array(Type.String(), { description: "empty: the usual tools" }),
      skills: Type.Array(Type.String(), { description: "empty: those of its parent" }),
      system_prompt: Type.String(),
      permission_mode: Nullable(Type.String()),
      max_iteration_per_run: Nullable(Type.Integer()),
      level: StringEnum(["project", "user", "builtin"]),
      source: Nullable(Type.String({ description: "its file" })),
      is_builtin: Type.Boolean(),
    }),
  ),
});

const offered = {
  name: Type.String(),
  description: Nullable(Type.String()),
  source: Type.String(),
  installed: Type.Boolean({ description: "whether conversations get it by themselves" }),
};
export const MarketplaceSkills = Type.Object({ skills: Type.Array(Type.Object(offered)) });
export const MarketplacePlugins = Type.Object({
  plugins: Type.Array(
    Type.Object({
      ...offered,
      ref: MarketplaceRegistration.properties.ref,
      repo_path: MarketplaceRegistration.properties.repo_path,
    }),
  ),
});

/** Body of `POST /api/plugins/fetch` (agent-server-1.58.md section 4.2). */
export const FetchPluginRequest = Type.Object({
  source: PluginSpec.properties.source,
  ref: PluginSpec.properties.ref,
  repo_path: PluginSpec.properties.repo_path,
  secrets: Type.Optional(ConversationSecrets),
  timeout: Type.Optional(Type.Integer({ minimum: 1, maximum: 600, default: 60, description: "seconds" })),
});

export const FetchPluginResponse = Type.Object({
  path: Type.String({ description: "folder of the plugin in the sandbox" }),
  resolved_ref: Nullable(Type.String({ description: "the commit" })),
  source: Type.String(),
  repo_path: Nullable(Type.String()),
  manifest: Type.Record(Type.String(), Type.Unknown(), { description: "its plugin.json, else its name" }),
  skills: Type.Array(Type.String({ description: "name" })),
  commands: Type.Array(Type.String({ description: "name" })),
});

export const HooksRequest = Type.Object({ project_dir: projectDir });

const Matchers = ConversationHooks.properties.hooks.items.properties.matchers;

/** The hooks of a project by their event; null where it has none. */
export const HooksResponse = Type.Object({
  hook_config: Nullable(Type.Object(Object.fromEntries(hookEvents.map((event) => [event, Matchers])))),
});

export type FetchPluginRequest = Static<typeof FetchPluginRequest>;
export type FetchPluginResponse = Static<typeof FetchPluginResponse>;
export type LoadedSkill = Static<typeof LoadedSkill>;
export type LoadedSkills = Static<typeof LoadedSkills>;
export type HooksResponse = Static<typeof HooksResponse>;
