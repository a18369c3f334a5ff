import { type Static, Type } from "typebox";
import { StringEnum } from "../common/schema.ts";
import { Content, MessageToolCall, ReasoningItem, ThinkingBlock } from "../events/content.ts";
import { TokenUsage } from "./state.ts";

/**
 * A recording: a conversation with its model traffic, one JSON object per line, so that long ones
 * can be streamed. The first line is the header, the last one the end; a file without an end is
 * truncated. A call refers to its prompt by the numbers of earlier lines, so shared messages occur
 * once. Messages and responses have the agent loop's shape, independent of the provider.
 */
export const recordingVersion = 1;

/** Media type of a recording. */
export const recordingType = "application/x-ndjson";

const PlacedReasoning = Type.Object({ callsBefore: Type.Integer({ minimum: 0 }), item: ReasoningItem });

/** A message as a model reads it. */
export const RecordedMessage = Type.Union([
  Type.Object({ role: Type.Literal("user"), content: Type.Array(Content) }),
  Type.Object({
    role: Type.Literal("assistant"),
    text: Type.String(),
    reasoning: Type.Optional(Type.String()),
    thinkingBlocks: Type.Array(ThinkingBlock),
    reasoningItems: Type.Optional(Type.Array(PlacedReasoning)),
    toolCalls: Type.Array(MessageToolCall),
  }),
  Type.Object({
    role: Type.Literal("tool"),
    toolCallId: Type.String(),
    toolName: Type.String(),
    content: Type.Array(Content),
    isError: Type.Boolean(),
  }),
]);

/** A tool as a model reads it. */
export const RecordedTool = Type.Object({
  name: Type.String(),
  description: Type.String(),
  parameters: Type.Record(Type.String(), Type.Unknown()),
});

/** A model's answer. */
export const RecordedResponse = Type.Object({
  id: Type.String(),
  text: Type.String(),
  reasoning: Type.Optional(Type.String()),
  thinkingBlocks: Type.Array(ThinkingBlock),
  reasoningItems: Type.Optional(Type.Array(PlacedReasoning)),
  toolCalls: Type.Array(MessageToolCall),
  problem: Type.Optional(Type.String()),
  usage: TokenUsage,
  cost: Type.Number({ description: "USD" }),
  finishReason: StringEnum(["stop", "tool-calls", "length", "content-filter", "other"]),
});

/** Why there is no answer: the code of the error, `Aborted` for a call that was cut off. */
export const RecordedFailure = Type.Object({ code: Type.String(), message: Type.String() });

/**
 * The first line. `config` is the conversation's configuration and `agent` the client's agent, both
 * without secrets.
 */
export const RecordingHeader = Type.Object({
  line: Type.Literal("recording"),
  version: Type.Integer({ minimum: 1 }),
  platform: Type.String({ description: "version of the program that wrote it" }),
  conversation: Type.Object({
    id: Type.String(),
    title: Type.Optional(Type.String()),
    created_at: Type.String(),
    sandbox_id: Type.String(),
    spec_id: Type.Optional(Type.String({ description: "what its sandbox was made of" })),
    config: Type.Record(Type.String(), Type.Unknown()),
    agent: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    context: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: "skills and notes that were known at its start",
      }),
    ),
    settings: Type.Record(Type.String(), Type.Unknown(), {
      description: "what the agent obeyed of the user's settings",
    }),
    secrets: Type.Array(
      Type.Object({
        name: Type.String(),
        description: Type.Optional(Type.String()),
        hosts: Type.Optional(Type.Array(Type.String())),
        plain: Type.Optional(Type.Boolean()),
      }),
    ),
  }),
  needs: Type.Array(Type.String(), { description: "sentences: what a replay from nothing lacks" }),
});

export const RecordedEvent = Type.Object({
  line: Type.Literal("event"),
  seq: Type.Integer({ minimum: 1 }),
  listed: Type.Boolean(),
  event: Type.Object({ id: Type.String(), kind: Type.String() }),
});

const numbered = {
  number: Type.Integer({ minimum: 0, description: "counted from 0 among the lines of this kind" }),
};

export const RecordedSystemLine = Type.Object({
  line: Type.Literal("system"),
  ...numbered,
  blocks: Type.Array(Type.String()),
});
export const RecordedToolsLine = Type.Object({
  line: Type.Literal("tools"),
  ...numbered,
  tools: Type.Array(RecordedTool),
});
export const RecordedMessageLine = Type.Object({
  line: Type.Literal("message"),
  ...numbered,
  message: RecordedMessage,
});

/** A call, where it began among the events. */
export const RecordedCall = Type.Object({
  line: Type.Literal("call"),
  usage_id: Type.String({ description: "agent, condenser, title …" }),
  model: Type.String(),
  at_seq: Type.Integer({ minimum: 0, description: "the last event that the prompt is made of" }),
  stored_seq: Type.Integer({ minimum: 0, description: "the last event that was stored with the answer" }),
  system: Type.Integer({ minimum: 0 }),
  tools: Type.Integer({ minimum: 0 }),
  messages: Type.Array(Type.Tuple([Type.Integer({ minimum: 0 }), Type.Integer({ minimum: 1 })]), {
    description: "runs of message lines: number of the first one, and how many",
  }),
  exact: Type.Boolean({
    description: "the prompt was made again out of the events, and is what the model was sent",
  }),
  started_at: Type.String(),
  latency_ms: Type.Number(),
  response: Type.Optional(RecordedResponse),
  failure: Type.Optional(RecordedFailure),
});

export const RecordingEnd = Type.Object({
  line: Type.Literal("end"),
  events: Type.Integer({ minimum: 0 }),
  calls: Type.Integer({ minimum: 0 }),
});

export const RecordingLine = Type.Union([
  RecordingHeader,
  RecordedEvent,
  RecordedSystemLine,
  RecordedToolsLine,
  RecordedMessageLine,
  RecordedCall,
  RecordingEnd,
]);

export type RecordedMessage = Static<typeof RecordedMessage>;
export type RecordedTool = Static<typeof RecordedTool>;
export type RecordedResponse = Static<typeof RecordedResponse>;
export type RecordedFailure = Static<typeof RecordedFailure>;
export type RecordingHeader = Static<typeof RecordingHeader>;
export type RecordedCall = Static<typeof RecordedCall>;
export type RecordingLine = Static<typeof RecordingLine>;
