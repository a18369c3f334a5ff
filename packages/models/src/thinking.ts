import type { LanguageModelV4Message, SharedV4ProviderMetadata } from "@ai-sdk/provider";
import type { ThinkingBlock } from "@sandpiper/wire";
import type { PlacedReasoning } from "./model.ts";

export type AssistantPart = Extract<LanguageModelV4Message, { role: "assistant" }>["content"][number];

/**
 * Gemini needs the signature of its hidden thoughts back with the tool calls that followed them,
 * also behind proxies. A redacted thinking block with this prefix carries it through the log.
 */
const googlePrefix = "google-thought-signature:";

/** Encrypted thoughts of Bedrock's models, which only Bedrock reads. */
const bedrockPrefix = "bedrock-redacted:";

/** Reasoning data that OpenRouter expects back (`reasoning-details.ts`). */
export const detailsPrefix = "openrouter-reasoning:";

/** Which part of its work a text of OpenAI's responses belongs to, with the model that said so. */
const phasePrefix = "openai-phase:";

const prefixes = [googlePrefix, bedrockPrefix, detailsPrefix, phasePrefix];

/** Whether a block is signed; a change would invalidate the signature. */
function isWhole(
  block: Extract<ThinkingBlock, { type: "thinking" }>,
): block is typeof block & { signature: string } {
  return Boolean(block.signature) && block.thinking.isWellFormed();
}

/** The blocks that Anthropic takes back: those that it signed itself, on whatever platform. */
export function anthropicThoughts(blocks: readonly ThinkingBlock[]): AssistantPart[] {
  return blocks.flatMap((block): AssistantPart[] => {
    if (block.type === "thinking") {
      if (!isWhole(block)) return [];
      return [
        {
          type: "reasoning",
          text: block.thinking,
          providerOptions: { anthropic: { signature: block.signature } },
        },
      ];
    }
    if (prefixes.some((prefix) => block.data.startsWith(prefix))) return [];
    return [{ type: "reasoning", text: "", providerOptions: { anthropic: { redactedData: block.data } } }];
  });
}

/** The blocks that Bedrock takes back. */
export function bedrockThoughts(blocks: readonly ThinkingBlock[]): AssistantPart[] {
  return blocks.flatMap((block): AssistantPart[] => {
    if (block.type === "thinking") {
      if (!isWhole(block)) return [];
      return [
        {
          type: "reasoning",
          text: block.thinking,
          providerOptions: { bedrock: { signature: block.signature } },
        },
      ];
    }
    if (!block.data.startsWith(bedrockPrefix)) return [];
    return [
      {
        type: "reasoning",
        text: "",
        providerOptions: { bedrock: { redactedContent: block.data.slice(bedrockPrefix.length) } },
      },
    ];
  });
}

/**
 * Converts a thought of OpenAI's responses to the parts of one item; empty without the encrypted
 * form, because OpenAI stores nothing.
 */
export function responsesThought({ item }: PlacedReasoning): AssistantPart[] {
  const { id, encrypted_content, summary } = item;
  if (!encrypted_content) return [];
  const openai = { ...(id && { itemId: id }), reasoningEncryptedContent: encrypted_content };
  const texts = id && summary.length > 0 ? summary : [summary.join("\n\n")];
  return texts.map((text) => ({ type: "reasoning", text: text.toWellFormed(), providerOptions: { openai } }));
}

/** The signature to send with the first tool call of a turn that Gemini wrote. */
export function thoughtSignature(blocks: readonly ThinkingBlock[]): string | undefined {
  const block = blocks.find(
    (block) => block.type === "redacted_thinking" && block.data.startsWith(googlePrefix),
  );
  return block?.type === "redacted_thinking" ? block.data.slice(googlePrefix.length) : undefined;
}

/** The block that keeps the signature which came with a tool call, if one did. */
export function signatureBlock(metadata: SharedV4ProviderMetadata | undefined): ThinkingBlock | undefined {
  const signature = metadata?.google?.thoughtSignature ?? metadata?.compatible?.thoughtSignature;
  return typeof signature === "string"
    ? { type: "redacted_thinking", data: googlePrefix + signature }
    : undefined;
}

/** The block that keeps what Bedrock encrypted. */
export function bedrockBlock(data: string): ThinkingBlock {
  return { type: "redacted_thinking", data: bedrockPrefix + data };
}

/**
 * The block that keeps the phase of a model's text, such as `commentary`, which OpenAI needs back.
 */
export function phaseBlock(phase: string, model: string): ThinkingBlock {
  return { type: "redacted_thinking", data: `${phasePrefix}${phase}:${model}` };
}

/** The phase of a text that this model wrote. */
export function getPhase(blocks: readonly ThinkingBlock[], model: string): string | undefined {
  for (const block of blocks) {
    if (block.type !== "redacted_thinking" || !block.data.startsWith(phasePrefix)) continue;
    const [phase, ...rest] = block.data.slice(phasePrefix.length).split(":");
    if (rest.join(":") === model) return phase;
  }
  return undefined;
}
