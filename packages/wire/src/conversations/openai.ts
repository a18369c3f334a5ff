import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

/**
 * The header that names the conversation of a chat completion, in requests and responses
 * (agent-server.md section 9).
 */
export const serverConversationHeader = "X-OpenHands-ServerConversation-ID";

/** A failure as OpenAI's clients read it. */
export const OpenAiFailure = Type.Object({
  error: Type.Object({
    message: Type.String(),
    type: StringEnum(["invalid_request_error", "server_error"]),
    param: Nullable(Type.String({ description: "the field of the request that is wrong" })),
    code: Nullable(Type.String()),
  }),
});

export const OpenAiModel = Type.Object({
  id: Type.String({ description: "`default`, or `openhands_` and the name of an LLM profile" }),
  object: Type.Literal("model"),
  created: Type.Integer({ description: "always 0" }),
  owned_by: Type.String(),
});

export const OpenAiModelList = Type.Object({ object: Type.Literal("list"), data: Type.Array(OpenAiModel) });

/** A part of a message; the agent accepts text and images only. */
const ChatPart = Type.Object({
  type: Type.String({ maxLength: 64 }),
  text: Type.Optional(Nullable(Type.String())),
  image_url: Type.Optional(Nullable(Type.Union([Type.Object({ url: Type.String() }), Type.String()]))),
});

export const ChatMessage = Type.Object({
  role: StringEnum(["user", "assistant", "system", "developer", "tool", "function"]),
  content: Type.Optional(Nullable(Type.Union([Type.String(), Type.Array(ChatPart, { maxItems: 1_000 })]))),
});

/**
 * Body of `POST /v1/chat/completions`. Other fields of OpenAI's API (temperature, tools …) are
 * accepted and ignored: the agent decides them.
 */
export const ChatCompletionRequest = Type.Object(
  {
    model: Type.String({ maxLength: 256, description: "an id of `GET /v1/models`" }),
    messages: Type.Array(ChatMessage, { minItems: 1, maxItems: 10_000 }),
    stream: Type.Optional(Nullable(Type.Boolean())),
    stream_options: Type.Optional(
      Nullable(Type.Object({ include_usage: Type.Optional(Nullable(Type.Boolean())) })),
    ),
  },
  { examples: [{ model: "default", messages: [{ role: "user", content: "Fix the failing test" }] }] },
);

/** Tokens of all model calls of the turn. */
export const CompletionUsage = Type.Object({
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
});

/** Answer of `POST /v1/chat/completions` without `stream`. `created` is in seconds. */
export const ChatCompletion = Type.Object({
  id: Type.String(),
  object: Type.Literal("chat.completion"),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Type.Object({
      index: Type.Integer(),
      message: Type.Object({ role: Type.Literal("assistant"), content: Type.String() }),
      finish_reason: Type.Literal("stop"),
    }),
  ),
  usage: CompletionUsage,
});

export const chatCompletionExample = {
  id: "chatcmpl-0b9be4d6c2a74f7e8d1f5a3c6e2b9d04",
  object: "chat.completion",
  created: 1_787_220_000,
  model: "default",
  choices: [{ index: 0, message: { role: "assistant", content: "The test passes." }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5_200, completion_tokens: 140, total_tokens: 5_340 },
} as const;

export type ChatMessage = Static<typeof ChatMessage>;
export type ChatCompletionRequest = Static<typeof ChatCompletionRequest>;
export type CompletionUsage = Static<typeof CompletionUsage>;
export type ChatCompletion = Static<typeof ChatCompletion>;
