import type { ModelMessage } from "@sandpiper/models/model";
import type { Content } from "@sandpiper/wire";

/** UTF-8 bytes per token: more in English prose, fewer in code and other languages. */
const bytesOfToken = 3.5;

/** Tokens per image; providers scale larger ones down. */
const imageTokens = 1_500;

/** Tokens of a message's frame. */
const frameTokens = 8;

/** Counted characters of a tool result: more is not sent (models/prompt.ts). */
const maxResultChars = 30_000;

export function textTokens(text: string): number {
  return Math.ceil(Buffer.byteLength(text) / bytesOfToken);
}

export function tokensToChars(tokens: number): number {
  return Math.floor(tokens * bytesOfToken);
}

export function messageTokens(message: ModelMessage): number {
  switch (message.role) {
    case "user":
      return frameTokens + contentTokens(message.content);
    case "tool":
      return frameTokens + contentTokens(message.content, maxResultChars);
    case "assistant": {
      const thoughts = message.thinkingBlocks.map((block) =>
        block.type === "thinking" ? block.thinking : block.data,
      );
      const calls = message.toolCalls.map((call) => call.name + call.arguments);
      return (
        frameTokens + [message.text, ...thoughts, ...calls].reduce((sum, text) => sum + textTokens(text), 0)
      );
    }
  }
}

function contentTokens(content: readonly Content[], limit = Number.POSITIVE_INFINITY): number {
  return content.reduce((sum, part) => {
    if (part.type === "image") return sum + part.image_urls.length * imageTokens;
    return sum + textTokens(part.text.length > limit ? part.text.slice(0, limit) : part.text);
  }, 0);
}
