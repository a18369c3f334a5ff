import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";
import { ConfirmationPolicy, SecurityAnalyzer } from "../conversations/confirmation.ts";
import { PluginSpec, SendMessageRequest } from "../conversations/conversations.ts";

const text = (maxLength: number) => Type.Optional(Nullable(Type.String({ maxLength })));

const tokens = Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1_000_000_000 })));
const price = Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: 1000, description: "USD" })));

const flag = Type.Optional(Nullable(Type.Boolean()));
const seconds = Type.Optional(
  Nullable(Type.Number({ minimum: 0, maximum: 1_000_000_000, description: "seconds" })),
);

/**
 * How a model thinks, caches prompts and calls tools. Unknown values are passed to the endpoint.
 */
const llmBehaviour = {
  model_canonical_name: text(1024),
  api_mode: text(64),
  reasoning_effort: text(64),
  reasoning_summary: text(64),
  extended_thinking_budget: Type.Optional(Nullable(Type.Integer({ maximum: 1_000_000_000 }))),
  caching_prompt: flag,
  prompt_cache_retention: text(64),
  retry_min_wait: seconds,
  retry_max_wait: seconds,
  retry_multiplier: seconds,
  native_tool_calling: flag,
  disable_stop_word: flag,
  disable_vision: flag,
  max_message_chars: tokens,
  drop_params: flag,
  litellm_extra_body: Type.Optional(
    Nullable(Type.Record(Type.String(), Type.Unknown(), { maxProperties: 1000 })),
  ),
  openrouter_site_url: text(8192),
  openrouter_app_name: text(1024),
  aws_access_key_id: Type.Optional(Nullable(Type.String({ maxLength: 65_536, format: "password" }))),
  aws_secret_access_key: Type.Optional(Nullable(Type.String({ maxLength: 65_536, format: "password" }))),
  aws_session_token: Type.Optional(Nullable(Type.String({ maxLength: 65_536, format: "password" }))),
  aws_region_name: text(1024),
  aws_bedrock_runtime_endpoint: text(8192),
};

/**
 * A model as a client describes it (agent-server.md section 3.1, LLM). Unknown fields are stored
 * and returned without effect, because clients send about sixty.
 */
export const GivenLlm = Type.Object(
  {
    model: Type.String({ minLength: 1, maxLength: 1024 }),
    api_key: Type.Optional(Nullable(Type.String({ maxLength: 65_536, format: "password" }))),
    base_url: text(8192),
    usage_id: text(256),
    temperature: Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: 2 }))),
    top_p: Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: 1 }))),
    top_k: Type.Optional(Nullable(Type.Number({ minimum: 0, maximum: 1_000_000 }))),
    seed: Type.Optional(Nullable(Type.Integer({ minimum: -(2 ** 53), maximum: 2 ** 53 }))),
    /** Followers get the text of answers while it grows. */
    stream: Type.Optional(Nullable(Type.Boolean())),
    /** Followers get each call of the model as LLMCompletionLogEvent. */
    log_completions: Type.Optional(Nullable(Type.Boolean())),
    max_input_tokens: tokens,
    max_output_tokens: tokens,
    timeout: Type.Optional(
      Nullable(Type.Number({ minimum: 0, maximum: 1_000_000_000, description: "seconds of one attempt" })),
    ),
    num_retries: Type.Optional(
      Nullable(Type.Integer({ minimum: 0, maximum: 1_000_000_000, description: "attempts in all" })),
    ),
    extra_headers: Type.Optional(
      Nullable(
        Type.Record(Type.String(), Type.String({ maxLength: 65_536, format: "password" }), {
          maxProperties: 100,
        }),
      ),
    ),
    input_cost_per_token: price,
    output_cost_per_token: price,
    ...llmBehaviour,
  },
  { additionalProperties: true },
);

/** A tool by its registered name (events.md section 3). */
export const GivenTool = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 200 }),
    params: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { additionalProperties: true },
);

/** A condenser as a client describes it; one with an `llm` of its own is summarised by that. */
const GivenCondenser = Type.Object(
  { kind: text(100), llm: Type.Optional(Nullable(GivenLlm)) },
  { additionalProperties: true },
);

const GivenSkill = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 256 }),
    content: Type.Optional(Type.String()),
    description: text(4096),
    source: text(4096),
    trigger: Type.Optional(Type.Unknown()),
    is_agentskills_format: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: true },
);

/** A secret of one conversation: its value, or where the server gets it from. */
export const SecretSource = Type.Union([
  Type.String({ maxLength: 65_536, format: "password" }),
  Type.Object(
    {
      kind: Type.Optional(Type.String({ maxLength: 100 })),
      value: Type.Optional(Nullable(Type.String({ maxLength: 65_536, format: "password" }))),
      url: text(8192),
      headers: Type.Optional(
        Nullable(Type.Record(Type.String(), Type.String({ maxLength: 65_536, format: "password" }))),
      ),
      description: text(4096),
    },
    { additionalProperties: true },
  ),
]);
export const ConversationSecrets = Type.Record(
  Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$" }),
  SecretSource,
  {
    maxProperties: 100,
    additionalProperties: false,
    writeOnly: true,
  },
);

const GivenContext = Type.Object(
  {
    skills: Type.Optional(Nullable(Type.Array(GivenSkill, { maxItems: 2000 }))),
    system_message_suffix: text(1_000_000),
    user_message_suffix: text(100_000),
    secrets: Type.Optional(Nullable(ConversationSecrets)),
  },
  { additionalProperties: true },
);

/** An agent as a client describes it (agent-server.md section 3.1). `kind` defaults to `Agent`. */
export const GivenAgent = Type.Object(
  {
    kind: text(100),
    llm: GivenLlm,
    tools: Type.Optional(Nullable(Type.Array(GivenTool, { maxItems: 200 }))),
    include_default_tools: Type.Optional(
      Nullable(Type.Array(Type.String({ maxLength: 200 }), { maxItems: 100 })),
    ),
    filter_tools_regex: text(1000),
    mcp_config: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
    agent_context: Type.Optional(Nullable(GivenContext)),
    system_prompt: text(1_000_000),
    condenser: Type.Optional(Nullable(GivenCondenser)),
    tool_concurrency_limit: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 100, default: 1 }))),
  },
  { additionalProperties: true },
);

/** The part of `agent_settings` that makes an agent; what is left out is the user's own setting. */
export const GivenAgentSettings = Type.Object(
  {
    ...Type.Partial(Type.Object({ ...GivenAgent.properties, llm: Nullable(Type.Partial(GivenLlm)) }))
      .properties,
    agent_kind: text(100),
    enable_sub_agents: Type.Optional(Nullable(Type.Boolean({ default: false }))),
    enable_switch_llm_tool: Type.Optional(Nullable(Type.Boolean({ default: true }))),
  },
  { additionalProperties: true },
);

/**
 * A tool that the client runs: the agent's call is an event, and the model gets an immediate result
 * that the call was handed over.
 */
export const ClientTool = Type.Object(
  {
    name: Type.String({ pattern: "^[A-Za-z_][A-Za-z0-9_-]{0,63}$" }),
    description: Type.String({ maxLength: 100_000 }),
    parameters: Type.Object(
      { type: Type.Literal("object"), properties: Type.Optional(Type.Record(Type.String(), Type.Unknown())) },
      { additionalProperties: true },
    ),
    annotations: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
  },
  { additionalProperties: true },
);

/** Keys are lower case letters and digits (agent-server.md section 3). */
export const ConversationTags = Type.Record(
  Type.String({ pattern: "^[a-z0-9]{1,100}$" }),
  Type.String({ maxLength: 256 }),
  {
    maxProperties: 50,
    additionalProperties: false,
  },
);

/** Where the worktree of a conversation begins (agent-server-1.58.md section 3.1). */
export const WorktreeOptions = Type.Object(
  {
    base: Type.Optional(StringEnum(["default_branch", "head", "ref"], { default: "default_branch" })),
    ref: Type.Optional(
      Nullable(
        Type.String({
          maxLength: 255,
          pattern: "^[A-Za-z0-9][A-Za-z0-9._/-]*$",
          description: "branch, tag or commit of the base `ref`",
        }),
      ),
    ),
    branch_prefix: Type.Optional(
      Type.String({
        maxLength: 100,
        pattern: "^([A-Za-z0-9][A-Za-z0-9._/-]*)?$",
        default: "openhands/",
        description: "the branch is this and the id of the conversation",
      }),
    ),
  },
  { additionalProperties: false },
);
export type WorktreeOptions = Static<typeof WorktreeOptions>;

/** A sub-agent that a client defines (openapi AgentDefinition of 1.58). */
export const GivenAgentDefinition = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 256 }),
    description: text(100_000),
    model: text(256),
    tools: Type.Optional(Nullable(Type.Array(Type.String({ maxLength: 200 }), { maxItems: 200 }))),
    skills: Type.Optional(Nullable(Type.Array(Type.String({ maxLength: 256 }), { maxItems: 200 }))),
    system_prompt: text(1_000_000),
    permission_mode: text(100),
    max_iteration_per_run: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1_000_000 }))),
    max_budget_per_run: Type.Optional(Nullable(Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 }))),
    mcp_config: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
    condenser: Type.Optional(Nullable(GivenCondenser)),
    hooks: Type.Optional(
      Nullable(
        Type.Record(Type.String(), Type.Unknown(), {
          description: "in the form of hook_config; they run after those of the conversation",
        }),
      ),
    ),
  },
  { additionalProperties: true },
);

/**
 * Body of `POST /api/conversations` of the agent server (agent-server.md section 3.1). Unknown
 * fields are ignored.
 */
export const StartConversationRequest = Type.Object({
  workspace: Type.Object(
    { working_dir: Type.String({ minLength: 1, maxLength: 4000 }) },
    { additionalProperties: true },
  ),
  agent: Type.Optional(Nullable(GivenAgent)),
  agent_settings: Type.Optional(Nullable(GivenAgentSettings)),
  agent_profile_id: text(64),
  conversation_id: text(64),
  parent_conversation_id: text(64),
  confirmation_policy: Type.Optional(Nullable(ConfirmationPolicy)),
  security_analyzer: Type.Optional(Nullable(SecurityAnalyzer)),
  initial_message: Type.Optional(Nullable(SendMessageRequest)),
  max_iterations: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1_000_000, default: 500 }))),
  stuck_detection: Type.Optional(Nullable(Type.Boolean({ default: true }))),
  worktree: Type.Optional(Nullable(Type.Boolean({ default: false }))),
  worktree_options: Type.Optional(Nullable(WorktreeOptions)),
  conversation_runtime: Type.Optional(
    Nullable(StringEnum(["local", "docker"], { description: "docker is refused" })),
  ),
  secrets: Type.Optional(Nullable(ConversationSecrets)),
  secrets_encrypted: Type.Optional(Nullable(Type.Boolean({ default: false }))),
  client_tools: Type.Optional(Nullable(Type.Array(ClientTool, { maxItems: 100 }))),
  agent_launch_additions: Type.Optional(
    Nullable(Type.Object({ system_message_suffix_append: text(32_768) })),
  ),
  agent_definitions: Type.Optional(
    Nullable(
      Type.Array(GivenAgentDefinition, { maxItems: 100, description: "sub-agents of this conversation" }),
    ),
  ),
  plugins: Type.Optional(Nullable(Type.Array(PluginSpec, { maxItems: 20 }))),
  hook_config: Type.Optional(Nullable(Type.Record(Type.String(), Type.Unknown()))),
  tags: Type.Optional(Nullable(ConversationTags)),
  autotitle: Type.Optional(Nullable(Type.Boolean({ default: true }))),
  title_llm_profile: text(64),
  observability_parent_span_context: Type.Optional(
    Nullable(
      Type.String({
        maxLength: 10_000,
        description: "a W3C traceparent goes along as the header of that name; other texts are not used",
      }),
    ),
  ),
});

/** Body and answer of `POST …/children` (agent-server-1.58.md section 3.3). */
const Isolation = ["worktree", "shared"] as const;
export const StartChildRequest = Type.Object({
  task: Type.String({ minLength: 1, maxLength: 1_000_000 }),
  title: text(200),
  isolation: Type.Optional(
    StringEnum(Isolation, {
      default: "worktree",
      description: "worktree: a git worktree of its own, if the parent's folder is a repository",
    }),
  ),
});
export type StartChildRequest = Static<typeof StartChildRequest>;
export const StartedChild = Type.Object({
  conversation_id: Type.String({ format: "uuid" }),
  parent_conversation_id: Type.String({ format: "uuid" }),
  status: Type.String({ description: "execution_status of the new conversation" }),
  title: Nullable(Type.String()),
  url: Type.Null(),
  workspace: Nullable(Type.String({ description: "its working folder" })),
  isolation: Nullable(StringEnum(Isolation, { description: "what was applied" })),
});

export const SwitchLlmRequest = Type.Object({ llm: GivenLlm });
export const UpdateSecretsRequest = Type.Object({ secrets: ConversationSecrets });
export const AskAgentRequest = Type.Object({ question: Type.String({ minLength: 1, maxLength: 100_000 }) });
export const AskAgentResponse = Type.Object({ response: Type.String() });
export const GenerateTitleRequest = Type.Object(
  {
    max_length: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 50 })),
    llm: Type.Optional(Nullable(GivenLlm)),
  },
  { default: {} },
);
export const GenerateTitleResponse = Type.Object({ title: Type.String() });
export const AgentFinalResponse = Type.Object({ response: Type.String() });
export const LoadPluginRequest = Type.Object({ plugin_ref: Type.String({ minLength: 1, maxLength: 512 }) });
export const NavigateRequest = Type.Object({ event_id: Nullable(Type.String({ maxLength: 64 })) });
export const GoalRequest = Type.Object({
  objective: Type.String({ maxLength: 100_000 }),
  max_iterations: Type.Optional(Type.Integer({ minimum: 1, maximum: 1000, default: 10 })),
});
export const PatchConversationRequest = Type.Object({
  title: Type.Optional(Nullable(Type.String({ minLength: 1, maxLength: 200, pattern: "\\S" }))),
  tags: Type.Optional(Nullable(ConversationTags)),
});
export const ForkConversationRequest = Type.Object(
  {
    id: text(64),
    title: text(200),
    tags: Type.Optional(Nullable(ConversationTags)),
    reset_metrics: Type.Optional(Nullable(Type.Boolean({ default: true }))),
    from_event_id: text(64),
  },
  { default: {} },
);

export type GivenLlm = Static<typeof GivenLlm>;
export type GivenAgent = Static<typeof GivenAgent>;
export type GivenAgentSettings = Static<typeof GivenAgentSettings>;
export type GivenAgentDefinition = Static<typeof GivenAgentDefinition>;
export type ClientTool = Static<typeof ClientTool>;
export type SecretSource = Static<typeof SecretSource>;
export type StartConversationRequest = Static<typeof StartConversationRequest>;
export type ForkConversationRequest = Static<typeof ForkConversationRequest>;
export type PatchConversationRequest = Static<typeof PatchConversationRequest>;
