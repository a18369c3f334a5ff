import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

/** A part of a message; the agent accepts text and images only. */
const InputPart = Type.Object({
  type: Type.String({ maxLength: 64, description: "input_text, output_text or input_image" }),
  text: Type.Optional(Nullable(Type.String())),
  image_url: Type.Optional(Nullable(Type.String())),
});

const InputItem = Type.Object({
  type: Type.Optional(
    Nullable(Type.String({ maxLength: 64, description: "others than message are left out" })),
  ),
  role: Type.Optional(Nullable(StringEnum(["user", "assistant", "system", "developer"]))),
  content: Type.Optional(Nullable(Type.Union([Type.String(), Type.Array(InputPart, { maxItems: 1_000 })]))),
});

/**
 * Body of `POST /v1/responses`. Other fields of OpenAI's API (temperature, tools …) are accepted
 * and ignored: the agent decides them.
 */
export const ResponseRequest = Type.Object(
  {
    model: Type.String({ maxLength: 256, description: "an id of `GET /v1/models`" }),
    input: Type.Union([Type.String(), Type.Array(InputItem, { minItems: 1, maxItems: 10_000 })]),
    instructions: Type.Optional(
      Nullable(Type.String({ description: "added to the system prompt of a new conversation" })),
    ),
    previous_response_id: Type.Optional(
      Nullable(Type.String({ maxLength: 256, description: "continues the conversation of that response" })),
    ),
    stream: Type.Optional(Nullable(Type.Boolean())),
    metadata: Type.Optional(Nullable(Type.Record(Type.String(), Type.String()))),
  },
  { examples: [{ model: "default", input: "Fix the failing test" }] },
);

const OutputMessage = Type.Object({
  type: Type.Literal("message"),
  id: Type.String(),
  role: Type.Literal("assistant"),
  status: StringEnum(["in_progress", "completed"]),
  content: Type.Array(
    Type.Object({
      type: Type.Literal("output_text"),
      text: Type.String(),
      annotations: Type.Array(Type.Unknown(), { maxItems: 0 }),
    }),
  ),
});

/** Answer of `POST /v1/responses` without `stream`. Times are in seconds. */
export const AgentResponse = Type.Object({
  id: Type.String({ description: "the next `previous_response_id`" }),
  object: Type.Literal("response"),
  status: StringEnum(["in_progress", "completed"]),
  created_at: Type.Number(),
  completed_at: Nullable(Type.Number()),
  model: Type.String(),
  instructions: Nullable(Type.String()),
  metadata: Nullable(Type.Record(Type.String(), Type.String())),
  previous_response_id: Nullable(Type.String()),
  output: Type.Array(OutputMessage),
  parallel_tool_calls: Type.Boolean(),
  tool_choice: Type.Literal("none"),
  tools: Type.Array(Type.Unknown(), { maxItems: 0 }),
  usage: Nullable(
    Type.Object({
      input_tokens: Type.Integer(),
      input_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
      output_tokens: Type.Integer(),
      output_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
      total_tokens: Type.Integer(),
    }),
  ),
});

export const agentResponseExample = {
  id: "resp_0b9be4d6c2a74f7e8d1f5a3c6e2b9d044a1d2c6e8f0b4c7a9e3d5b7f1a2c4e60",
  object: "response",
  status: "completed",
  created_at: 1_787_220_000,
  completed_at: 1_787_220_042,
  model: "default",
  instructions: null,
  metadata: null,
  previous_response_id: null,
  output: [
    {
      type: "message",
      id: "msg_4a1d2c6e8f0b4c7a9e3d5b7f1a2c4e60",
      role: "assistant",
      status: "completed",
      content: [{ type: "output_text", text: "The test passes.", annotations: [] }],
    },
  ],
  parallel_tool_calls: false,
  tool_choice: "none",
  tools: [],
  usage: {
    input_tokens: 5_200,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 140,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 5_340,
  },
} as const;

export type ResponseRequest = Static<typeof ResponseRequest>;
export type AgentResponse = Static<typeof AgentResponse>;
