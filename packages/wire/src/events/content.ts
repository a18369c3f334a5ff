import { type Static, Type } from "typebox";
import { Nullable, StringEnum } from "../common/schema.ts";

/** Text in messages, thoughts and observations (events.md section 2, nested types). */
export const TextContent = Type.Object({
  type: Type.Literal("text"),
  text: Type.String(),
  cache_prompt: Type.Optional(Type.Boolean({ default: false })),
});

/** Images by URL or data URL (events.md section 2). */
export const ImageContent = Type.Object({
  type: Type.Literal("image"),
  image_urls: Type.Array(Type.String()),
  cache_prompt: Type.Optional(Type.Boolean({ default: false })),
});

export const Content = Type.Union([TextContent, ImageContent]);

/** A tool call as the model wrote it; `arguments` is the raw JSON text (events.md section 2). */
export const MessageToolCall = Type.Object({
  id: Type.String(),
  responses_item_id: Type.Optional(
    Type.String({ description: "the id of the call as an item of OpenAI's responses" }),
  ),
  name: Type.String(),
  arguments: Type.String(),
  origin: StringEnum(["completion", "responses"]),
});

/** Reasoning that Anthropic models want replayed with its signature. */
export const ThinkingBlock = Type.Union([
  Type.Object({
    type: Type.Literal("thinking"),
    thinking: Type.String(),
    signature: Type.Optional(Nullable(Type.String())),
  }),
  Type.Object({ type: Type.Literal("redacted_thinking"), data: Type.String() }),
]);

/**
 * An encrypted thought of a model behind OpenAI's responses, sent back before the call or message
 * that followed it.
 */
export const ReasoningItem = Type.Object({
  id: Type.Optional(Type.String()),
  summary: Type.Array(Type.String()),
  encrypted_content: Type.Optional(Type.String()),
});

/** A chat message inside a MessageEvent (events.md section 2). */
export const Message = Type.Object({
  role: StringEnum(["user", "system", "assistant", "tool"]),
  content: Type.Array(Content),
  reasoning_content: Type.Optional(Type.String()),
  thinking_blocks: Type.Optional(Type.Array(ThinkingBlock)),
  responses_reasoning_item: Type.Optional(ReasoningItem),
});

export type TextContent = Static<typeof TextContent>;
export type ImageContent = Static<typeof ImageContent>;
export type Content = Static<typeof Content>;
export type MessageToolCall = Static<typeof MessageToolCall>;
export type ThinkingBlock = Static<typeof ThinkingBlock>;
export type ReasoningItem = Static<typeof ReasoningItem>;
export type Message = Static<typeof Message>;

/** A text part, in the form in which it is stored. */
export function textContent(text: string): TextContent {
  return { type: "text", text, cache_prompt: false };
}

/** All text parts of a content list, joined with newlines. */
export function contentText(content: readonly Content[]): string {
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}
