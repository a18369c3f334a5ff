import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "../common/schema.ts";
import { Content } from "../events/content.ts";
import { ProviderType, SuggestedTask } from "../sandboxes/git.ts";
import { NetworkOverride, SandboxStatus } from "../sandboxes/sandboxes.ts";
import { CallbackProcessors } from "./callbacks.ts";
import { ExecutionStatus, MetricsSnapshot } from "./state.ts";

export const triggers = [
  "resolver",
  "gui",
  "suggested_task",
  "openhands_api",
  "slack",
  "microagent_management",
  "jira",
  "jira_dc",
  "linear",
  "bitbucket",
  "automation",
] as const;
const Trigger = StringEnum(triggers);

/** A conversation as the app server shows it (app-server.md section 2.1). Ids are 32 hex digits. */
export const AppConversation = Type.Object({
  id: Type.String(),
  created_by_user_id: Nullable(Type.String()),
  sandbox_id: Type.String(),
  selected_repository: Nullable(Type.String()),
  selected_branch: Nullable(Type.String()),
  git_provider: Nullable(ProviderType),
  title: Nullable(Type.String()),
  trigger: Nullable(Trigger),
  pr_number: Type.Array(Type.Integer()),
  llm_model: Nullable(Type.String()),
  agent_kind: Type.String(),
  metrics: Nullable(MetricsSnapshot),
  parent_conversation_id: Nullable(Type.String()),
  sub_conversation_ids: Type.Array(Type.String()),
  public: Nullable(Type.Boolean()),
  tags: Type.Record(Type.String(), Type.String()),
  created_at: Type.String({ format: "date-time" }),
  updated_at: Type.String({ format: "date-time" }),
  sandbox_status: SandboxStatus,
  execution_status: Nullable(ExecutionStatus),
  conversation_url: Nullable(Type.String()),
  session_api_key: Nullable(Type.String()),
  acp_server: Nullable(Type.String()),
  launched_agent_profile: Nullable(
    Type.Object({ agent_profile_id: Type.String(), revision: Type.Integer() }),
  ),
});

/** OpenAI's shape of an image part, which the released GUI sends (legacy-gui.md section 7.1). */
const ImageUrlPart = Type.Object({
  type: Type.Literal("image_url"),
  image_url: Type.Object({ url: Type.String() }),
});

/**
 * A client's message (agent-server.md section 5, legacy-gui.md section 7.1). Only the role `user`
 * is accepted.
 */
export const SendMessageRequest = Type.Object({
  role: Type.Optional(Type.Literal("user")),
  content: Type.Array(Type.Union([Content, ImageUrlPart]), { minItems: 1, maxItems: 100 }),
  run: Type.Optional(Type.Boolean({ default: false })),
  sender: Type.Optional(Nullable(Type.String({ maxLength: 200 }))),
});

/** A plugin: a folder with skills in a git repository (app-server.md section 2.3). */
export const PluginSpec = Type.Object({
  source: Type.String({
    minLength: 1,
    maxLength: 512,
    description: "`github:owner/repo`, `owner/repo` or an https address",
  }),
  ref: Type.Optional(Nullable(Type.String({ maxLength: 255, description: "branch or tag" }))),
  repo_path: Type.Optional(
    Nullable(Type.String({ maxLength: 512, description: "folder of the plugin in its repository" })),
  ),
  parameters: Type.Optional(
    Nullable(Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), { maxProperties: 50 })),
  ),
});

/** Key and value pairs of a client's own. */
const Tags = Type.Record(Type.String({ maxLength: 100 }), Type.String({ maxLength: 1000 }), {
  maxProperties: 50,
});

/** Secrets of one conversation; their values are never shown again. */
const StartSecrets = Type.Record(
  Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$" }),
  Type.String({ maxLength: 65_536, format: "password" }),
  // A name that is no name of a variable is refused, not dropped.
  { maxProperties: 100, additionalProperties: false },
);

/** A budget of one conversation; an extension. */
const budget = Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000, description: "USD" });

/** The example of a start in the API document. */
export const startExamples = [
  {
    initial_message: { content: [{ type: "text", text: "Fix the failing test" }] },
    llm_model: "anthropic/claude-sonnet-4-5",
    selected_repository: "acme/widgets",
    selected_branch: "main",
    git_provider: "github",
  },
];

/** Body of `POST /api/v1/app-conversations`; everything is optional (app-server.md section 2.3). */
export const AppConversationStartRequest = Type.Object(
  {
    sandbox_id: Type.Optional(Nullable(Type.String({ maxLength: 128 }))),
    conversation_id: Type.Optional(Nullable(Type.String())),
    initial_message: Type.Optional(Nullable(SendMessageRequest)),
    system_message_suffix: Type.Optional(Nullable(Type.String({ maxLength: 32_768 }))),
    processors: Type.Optional(Nullable(CallbackProcessors)),
    llm_model: Type.Optional(Nullable(Type.String({ maxLength: 256 }))),
    agent_profile_id: Type.Optional(Nullable(Type.String({ maxLength: 64 }))),
    selected_repository: Type.Optional(Nullable(Type.String({ maxLength: 512 }))),
    selected_branch: Type.Optional(Nullable(Type.String({ maxLength: 255 }))),
    git_provider: Type.Optional(Nullable(ProviderType)),
    suggested_task: Type.Optional(Nullable(SuggestedTask)),
    title: Type.Optional(Nullable(Type.String({ maxLength: 200 }))),
    trigger: Type.Optional(Nullable(Trigger)),
    pr_number: Type.Optional(Nullable(Type.Array(Type.Integer(), { maxItems: 100 }))),
    parent_conversation_id: Type.Optional(Nullable(Type.String())),
    agent_type: Type.Optional(Nullable(StringEnum(["default", "plan"]))),
    public: Type.Optional(Nullable(Type.Boolean())),
    observability_metadata: Type.Optional(Type.Unknown({ description: "accepted and not used" })),
    observability_tags: Type.Optional(Type.Unknown({ description: "accepted and not used" })),
    observability_span_name: Type.Optional(Type.Unknown({ description: "accepted and not used" })),
    plugins: Type.Optional(Nullable(Type.Array(PluginSpec, { maxItems: 10 }))),
    secrets: Type.Optional(Nullable(StartSecrets)),
    tags: Type.Optional(Nullable(Tags)),
    sandbox_spec_id: Type.Optional(Nullable(Type.String())),
    network: Type.Optional(Nullable(NetworkOverride)),
    max_budget_per_task: Type.Optional(Nullable(budget)),
  },
  { examples: startExamples },
);

/**
 * Body of `PATCH /api/v1/app-conversations/{id}`: absent fields stay, null clears (app-server.md
 * section 2.6).
 */
export const AppConversationUpdateRequest = Type.Object({
  title: Type.Optional(Nullable(Type.String({ minLength: 1, maxLength: 200 }))),
  public: Type.Optional(Nullable(Type.Boolean())),
  selected_repository: Type.Optional(Nullable(Type.String({ maxLength: 512 }))),
  selected_branch: Type.Optional(Nullable(Type.String({ maxLength: 255 }))),
  git_provider: Type.Optional(Nullable(ProviderType)),
  max_budget_per_task: Type.Optional(Nullable(budget)),
});

export const startTaskStatuses = [
  "WORKING",
  "WAITING_FOR_SANDBOX",
  "PREPARING_REPOSITORY",
  "RUNNING_SETUP_SCRIPT",
  "SETTING_UP_GIT_HOOKS",
  "SETTING_UP_SKILLS",
  "STARTING_CONVERSATION",
  "READY",
  "ERROR",
] as const;

/** The progress of a conversation's start (app-server.md section 2.4). */
export const AppConversationStartTask = Type.Object({
  id: Type.String(),
  created_by_user_id: Nullable(Type.String()),
  status: StringEnum(startTaskStatuses),
  detail: Nullable(Type.String()),
  app_conversation_id: Nullable(Type.String()),
  sandbox_id: Nullable(Type.String()),
  agent_server_url: Nullable(Type.String()),
  // As it was accepted, without the values of secrets.
  request: Type.Unsafe<unknown>(AppConversationStartRequest),
  created_at: Type.String({ format: "date-time" }),
  updated_at: Type.String({ format: "date-time" }),
});

export const AppConversationPage = Page(AppConversation);
export const AppConversationStartTaskPage = Page(AppConversationStartTask);

export type AppConversation = Static<typeof AppConversation>;

/** Body of `POST /api/v1/app-conversations/model-check`; all is optional. */
export const ModelCheckRequest = Type.Object({
  llm_model: Type.Optional(
    Nullable(Type.String({ maxLength: 256, description: "default: the model of the settings" })),
  ),
  llm_base_url: Type.Optional(
    Nullable(Type.String({ maxLength: 2_048, description: "default: that of the settings or the provider" })),
  ),
  llm_api_key: Type.Optional(
    Nullable(Type.String({ maxLength: 8_192, description: "key for llm_base_url" })),
  ),
});
export type ModelCheckRequest = Static<typeof ModelCheckRequest>;
export type SendMessageRequest = Static<typeof SendMessageRequest>;
export type AppConversationStartRequest = Static<typeof AppConversationStartRequest>;
export type AppConversationUpdateRequest = Static<typeof AppConversationUpdateRequest>;
export type PluginSpec = Static<typeof PluginSpec>;
export type StartTaskStatus = (typeof startTaskStatuses)[number];
export type AppConversationStartTask = Static<typeof AppConversationStartTask>;
