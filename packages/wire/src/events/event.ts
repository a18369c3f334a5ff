import { type Static, Type } from "typebox";
import { StringEnum } from "../common/schema.ts";
import { Message, MessageToolCall, ReasoningItem, TextContent, ThinkingBlock } from "./content.ts";
import { Action, Observation, ToolDefinition } from "./tools.ts";

/**
 * The event kinds that this server writes, as they are stored and sent (events.md section 2).
 * Optional fields that are empty are left out: older clients refuse fields that they do not know.
 */
const base = {
  id: Type.String(),
  timestamp: Type.String({ description: "naive ISO-8601 in UTC with microseconds" }),
  parent_id: Type.Optional(
    Type.String({
      description:
        "the event before this one on its branch; in lists only where the conversation was navigated",
    }),
  ),
};

const toolResult = { tool_name: Type.String(), tool_call_id: Type.String() };

export const SystemPromptEvent = Type.Object({
  kind: Type.Literal("SystemPromptEvent"),
  ...base,
  source: Type.Literal("agent"),
  system_prompt: TextContent,
  tools: Type.Array(ToolDefinition),
  dynamic_context: Type.Optional(TextContent),
});

export const MessageEvent = Type.Object({
  kind: Type.Literal("MessageEvent"),
  ...base,
  source: StringEnum(["agent", "user", "environment"]),
  llm_message: Message,
  llm_response_id: Type.Optional(Type.String()),
  activated_skills: Type.Array(Type.String()),
  extended_content: Type.Array(TextContent),
  sender: Type.Optional(Type.String()),
});

export const securityRisks = ["UNKNOWN", "LOW", "MEDIUM", "HIGH"] as const;

export const ActionEvent = Type.Object({
  kind: Type.Literal("ActionEvent"),
  ...base,
  source: Type.Literal("agent"),
  thought: Type.Array(TextContent),
  reasoning_content: Type.Optional(Type.String()),
  thinking_blocks: Type.Array(ThinkingBlock),
  responses_reasoning_item: Type.Optional(ReasoningItem),
  action: Type.Optional(Action),
  tool_name: Type.String(),
  tool_call_id: Type.String(),
  tool_call: MessageToolCall,
  llm_response_id: Type.String(),
  security_risk: StringEnum(securityRisks, { default: "UNKNOWN" }),
  summary: Type.Optional(Type.String()),
});

export const ObservationEvent = Type.Object({
  kind: Type.Literal("ObservationEvent"),
  ...base,
  source: Type.Literal("environment"),
  ...toolResult,
  observation: Observation,
  action_id: Type.String(),
  extended_content: Type.Optional(Type.Array(TextContent)),
});

export const AgentErrorEvent = Type.Object({
  kind: Type.Literal("AgentErrorEvent"),
  ...base,
  source: Type.Literal("agent"),
  ...toolResult,
  error: Type.String(),
});

export const UserRejectObservation = Type.Object({
  kind: Type.Literal("UserRejectObservation"),
  ...base,
  source: Type.Literal("environment"),
  ...toolResult,
  action_id: Type.String(),
  rejection_reason: Type.String(),
  rejection_source: StringEnum(["user", "hook"]),
});

export const PauseEvent = Type.Object({
  kind: Type.Literal("PauseEvent"),
  ...base,
  source: Type.Literal("user"),
});
export const InterruptEvent = Type.Object({
  kind: Type.Literal("InterruptEvent"),
  ...base,
  source: Type.Literal("user"),
});

export const ConversationErrorEvent = Type.Object({
  kind: Type.Literal("ConversationErrorEvent"),
  ...base,
  source: Type.Literal("environment"),
  code: Type.String(),
  detail: Type.String(),
});

/** Asks for the history to be summarised before the model is called again. */
export const CondensationRequest = Type.Object({
  kind: Type.Literal("CondensationRequest"),
  ...base,
  source: Type.Literal("environment"),
});

/**
 * From here on a summary replaces these events in the prompt; the log keeps them
 * (agent-behaviour.md section 6).
 */
export const Condensation = Type.Object({
  kind: Type.Literal("Condensation"),
  ...base,
  source: Type.Literal("environment"),
  forgotten_event_ids: Type.Array(Type.String()),
  summary: Type.Optional(Type.String()),
  summary_offset: Type.Optional(Type.Integer({ minimum: 0 })),
  llm_response_id: Type.String(),
});

export const hookEventTypes = [
  "PreToolUse",
  "PostToolUse",
  "UserPromptSubmit",
  "SessionStart",
  "SessionEnd",
  "Stop",
] as const;

/** A hook of the project that was run, and what it decided (agent-behaviour.md section 9). */
export const HookExecutionEvent = Type.Object({
  kind: Type.Literal("HookExecutionEvent"),
  ...base,
  source: Type.Literal("hook"),
  hook_event_type: StringEnum(hookEventTypes),
  hook_command: Type.String(),
  tool_name: Type.Optional(Type.String()),
  success: Type.Boolean(),
  blocked: Type.Boolean({ default: false }),
  exit_code: Type.Integer(),
  stdout: Type.String({ default: "" }),
  stderr: Type.String({ default: "" }),
  reason: Type.Optional(Type.String()),
  additional_context: Type.Optional(Type.String()),
  error: Type.Optional(Type.String()),
  action_id: Type.Optional(Type.String()),
  message_id: Type.Optional(Type.String()),
  hook_input: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
});

/**
 * A change of the conversation's state. It drives the fold and is sent live, but never listed
 * (agent-server.md section 6.1).
 */
export const ConversationStateUpdateEvent = Type.Object({
  kind: Type.Literal("ConversationStateUpdateEvent"),
  ...base,
  source: Type.Literal("environment"),
  key: Type.String(),
  value: Type.Unknown(),
});

/** A piece of the model's answer as it arrives. Sent to sockets only, never stored. */
export const StreamingDeltaEvent = Type.Object({
  kind: Type.Literal("StreamingDeltaEvent"),
  ...base,
  source: Type.Literal("agent"),
  content: Type.Optional(Type.String()),
  reasoning_content: Type.Optional(Type.String()),
});

/** Answer to a frame that could not be processed. Sent to the one socket only, never stored. */
export const ServerErrorEvent = Type.Object({
  kind: Type.Literal("ServerErrorEvent"),
  ...base,
  source: Type.Literal("environment"),
  code: Type.String(),
  detail: Type.String(),
});

export const Event = Type.Union([
  SystemPromptEvent,
  MessageEvent,
  ActionEvent,
  ObservationEvent,
  AgentErrorEvent,
  UserRejectObservation,
  PauseEvent,
  InterruptEvent,
  ConversationErrorEvent,
  CondensationRequest,
  Condensation,
  HookExecutionEvent,
  ConversationStateUpdateEvent,
  StreamingDeltaEvent,
  ServerErrorEvent,
]);

export type SystemPromptEvent = Static<typeof SystemPromptEvent>;
export type MessageEvent = Static<typeof MessageEvent>;
export type ActionEvent = Static<typeof ActionEvent>;
export type ObservationEvent = Static<typeof ObservationEvent>;
export type AgentErrorEvent = Static<typeof AgentErrorEvent>;
export type UserRejectObservation = Static<typeof UserRejectObservation>;
export type PauseEvent = Static<typeof PauseEvent>;
export type InterruptEvent = Static<typeof InterruptEvent>;
export type CondensationRequest = Static<typeof CondensationRequest>;
export type Condensation = Static<typeof Condensation>;
export type HookExecutionEvent = Static<typeof HookExecutionEvent>;
export type ConversationErrorEvent = Static<typeof ConversationErrorEvent>;
export type ConversationStateUpdateEvent = Static<typeof ConversationStateUpdateEvent>;
export type StreamingDeltaEvent = Static<typeof StreamingDeltaEvent>;
export type ServerErrorEvent = Static<typeof ServerErrorEvent>;
export type Event = Static<typeof Event>;
export type SecurityRisk = (typeof securityRisks)[number];

type WithoutStamp<E> = E extends Event ? Omit<E, "id" | "timestamp" | "parent_id"> & { id?: string } : never;

/** An event before the log gave it its timestamp (and its id, where the writer chose none). */
export type NewEvent = WithoutStamp<Event>;

/** Every kind that a client may name in a filter (app-server.md section 3). */
export const eventKinds = [
  "ServerErrorEvent",
  "ACPToolCallEvent",
  "Condensation",
  "CondensationRequest",
  "CondensationSummaryEvent",
  "ConversationErrorEvent",
  "ConversationStateUpdateEvent",
  "HookExecutionEvent",
  "LLMCompletionLogEvent",
  "ActionEvent",
  "MessageEvent",
  "AgentErrorEvent",
  "ObservationEvent",
  "UserRejectObservation",
  "SystemPromptEvent",
  "StreamingDeltaEvent",
  "TokenEvent",
  "InterruptEvent",
  "PauseEvent",
] as const;

export const EventKind = StringEnum(eventKinds);
