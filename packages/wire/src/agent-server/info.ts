import { type Static, Type } from "typebox";
import { Nullable, Page, StringEnum } from "../common/schema.ts";
import { ConfirmationPolicy, SecurityAnalyzer } from "../conversations/confirmation.ts";
import { ExecutionStatus, MetricsSnapshot, Stats } from "../conversations/state.ts";
import { ClientTool } from "./conversations.ts";

const Names = Type.Array(Type.String());
const Texts = Type.Record(Type.String(), Type.String());
const Open = Type.Object({}, { additionalProperties: true });
const id = Nullable(Type.String({ format: "uuid" }));

/** The values of a conversation's secrets are masked. */
const SecretRegistry = Type.Object({
  secret_sources: Type.Record(
    Type.String(),
    Type.Object({ kind: Type.String(), value: Nullable(Type.String()) }),
  ),
});

/** The sandbox of a conversation as its runtime (agent-server-1.49.md section 2.1). */
export const ConversationRuntimeInfo = Type.Object({
  runtime_status: StringEnum(["available", "starting", "missing", "ownership_lost", "error"]),
  can_resume: Type.Boolean({ description: "POST …/runtime/reprovision can bring it back" }),
  runtime_error: Nullable(Type.Object({ code: Type.String(), message: Type.String() })),
});
export type ConversationRuntimeInfo = Static<typeof ConversationRuntimeInfo>;

/**
 * A conversation in the shape of the agent server (agent-server.md section 3.2). Every field is
 * present, null when it has no value. Ids are dashed.
 */
export const ConversationInfo = Type.Object(
  {
    id: Type.String({ format: "uuid" }),
    agent: Type.Object({ kind: Type.Literal("Agent") }, { additionalProperties: true }),
    workspace: Type.Object({ kind: Type.String(), working_dir: Type.String() }),
    persistence_dir: Nullable(Type.String()),
    max_iterations: Type.Integer(),
    stuck_detection: Type.Boolean(),
    execution_status: ExecutionStatus,
    confirmation_policy: ConfirmationPolicy,
    security_analyzer: Nullable(SecurityAnalyzer),
    activated_knowledge_skills: Names,
    invoked_skills: Names,
    blocked_actions: Texts,
    blocked_messages: Texts,
    last_user_message_id: Nullable(Type.String()),
    leaf_event_id: Nullable(Type.String()),
    stats: Stats,
    secret_registry: SecretRegistry,
    agent_state: Open,
    hook_config: Nullable(Open),
    title: Nullable(Type.String()),
    metrics: Nullable(MetricsSnapshot),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
    forked_from_conversation_id: id,
    forked_from_event_id: Nullable(Type.String()),
    parent_conversation_id: id,
    sub_conversation_ids: Names,
    tags: Texts,
    current_model_id: Nullable(Type.String()),
    available_models: Type.Array(Open),
    supports_runtime_model_switch: Type.Boolean(),
    launched_agent_profile: Nullable(
      Type.Object({ agent_profile_id: Type.String(), revision: Type.Integer() }),
    ),
    client_tools: Type.Array(ClientTool),
    /** Python modules of the agent's tools, which the Python SDK imports before it reads events. */
    tool_module_qualnames: Texts,
    runtime_info: ConversationRuntimeInfo,
  },
  { additionalProperties: true },
);

export const ConversationInfoPage = Page(ConversationInfo);

export type ConversationInfo = Static<typeof ConversationInfo>;
