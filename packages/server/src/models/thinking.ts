import type { LanguageModelV4Message, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { ThinkingBlock } from "@sandpiper/wire";

export type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

/**
 * Gemini wants the signature of its hidden thoughts back with the tool calls that followed them. It is kept as a redacted
 * thinking block with this prefix, so that it travels through the log like Anthropic's blocks do.
 */
const googlePrefix = "google-thought-signature:";

/** The blocks that Anthropic takes back: those that it signed itself. */
export function readableBlocks(blocks: readonly ThinkingBlock[]): AssistantPart[] {
  return blocks.flatMap((block): AssistantPart[] => {
    if (block.type === "thinking") {
      if (!block.signature) return [];
      return [{ type: "reasoning", text: block.thinking, providerOptions: { anthropic: { signature: block.signature } } }];
    }
    if (block.data.startsWith(googlePrefix)) return [];
    return [{ type: "reasoning", text: "", providerOptions: { anthropic: { redactedData: block.data } } }];
  });
}

/** The signature to send with the first tool call of a turn that Gemini wrote. */
export function thoughtSignature(blocks: readonly ThinkingBlock[]): string | undefined {
  const block = blocks.find((block) => block.type === "redacted_thinking" && block.data.startsWith(googlePrefix));
  return block?.type === "redacted_thinking" ? block.data.slice(googlePrefix.length) : undefined;
}

/** The block that keeps the signature which came with a tool call, if one did. */
export function signatureBlock(metadata: SharedV4ProviderMetadata | undefined): ThinkingBlock | undefined {
  const signature = metadata?.google?.thoughtSignature;
  return typeof signature === "string" ? { type: "redacted_thinking", data: googlePrefix + signature } : undefined;
}
