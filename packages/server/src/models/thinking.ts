import type { LanguageModelV4Message, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { ThinkingBlock } from "@sandpiper/wire";
import type { PlacedReasoning } from "./model.ts";

export type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

/**
 * Gemini wants the signature of its hidden thoughts back with the tool calls that followed them, also from behind proxies. It is kept as a redacted thinking
 * block with this prefix, so that it travels through the log like Anthropic's blocks do.
 */
const googlePrefix = "google-thought-signature:";

/** Encrypted thoughts of Bedrock's models, which only Bedrock reads. */
const bedrockPrefix = "bedrock-redacted:";

/** Whether a block is signed, and can be sent without a change, which would make the signature wrong. */
function isWhole(block: Extract<ThinkingBlock, { type: "thinking" }>): block is typeof block & { signature: string } {
  return Boolean(block.signature) && block.thinking.isWellFormed();
}

/** The blocks that Anthropic takes back: those that it signed itself, on whatever platform. */
export function anthropicThoughts(blocks: readonly ThinkingBlock[]): AssistantPart[] {
  return blocks.flatMap((block): AssistantPart[] => {
    if (block.type === "thinking") {
      if (!isWhole(block)) return [];
      return [{ type: "reasoning", text: block.thinking, providerOptions: { anthropic: { signature: block.signature } } }];
    }
    if (block.data.startsWith(googlePrefix) || block.data.startsWith(bedrockPrefix)) return [];
    return [{ type: "reasoning", text: "", providerOptions: { anthropic: { redactedData: block.data } } }];
  });
}

/** The blocks that Bedrock takes back. */
export function bedrockThoughts(blocks: readonly ThinkingBlock[]): AssistantPart[] {
  return blocks.flatMap((block): AssistantPart[] => {
    if (block.type === "thinking") {
      if (!isWhole(block)) return [];
      return [{ type: "reasoning", text: block.thinking, providerOptions: { bedrock: { signature: block.signature } } }];
    }
    if (!block.data.startsWith(bedrockPrefix)) return [];
    return [
      { type: "reasoning", text: "", providerOptions: { bedrock: { redactedContent: block.data.slice(bedrockPrefix.length) } } },
    ];
  });
}

/** A thought of OpenAI's responses as the parts of one item; nothing where it came without its encrypted form, since nothing of it is stored there. */
export function responsesThought({ item }: PlacedReasoning): AssistantPart[] {
  const { id, encrypted_content, summary } = item;
  if (!encrypted_content) return [];
  const openai = { ...(id && { itemId: id }), reasoningEncryptedContent: encrypted_content };
  const texts = id && summary.length > 0 ? summary : [summary.join("\n\n")];
  return texts.map((text) => ({ type: "reasoning", text: text.toWellFormed(), providerOptions: { openai } }));
}

/** The signature to send with the first tool call of a turn that Gemini wrote. */
export function thoughtSignature(blocks: readonly ThinkingBlock[]): string | undefined {
  const block = blocks.find((block) => block.type === "redacted_thinking" && block.data.startsWith(googlePrefix));
  return block?.type === "redacted_thinking" ? block.data.slice(googlePrefix.length) : undefined;
}

/** The block that keeps the signature which came with a tool call, if one did. */
export function signatureBlock(metadata: SharedV4ProviderMetadata | undefined): ThinkingBlock | undefined {
  const signature = metadata?.google?.thoughtSignature ?? metadata?.compatible?.thoughtSignature;
  return typeof signature === "string" ? { type: "redacted_thinking", data: googlePrefix + signature } : undefined;
}

/** The block that keeps what Bedrock encrypted. */
export function bedrockBlock(data: string): ThinkingBlock {
  return { type: "redacted_thinking", data: bedrockPrefix + data };
}
