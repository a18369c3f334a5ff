import type { LanguageModelV4CallOptions, SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { CallOptions } from "./call-options.ts";
import { claudeThinking, maxThinkingBudget } from "./claude-models.ts";
import { isOpenAiReasoner } from "./openai-models.ts";
import type { ModelAddress } from "./resolve.ts";

/** The reasoning parameters of a request. */
export interface ReasoningParameters {
  reasoning?: NonNullable<LanguageModelV4CallOptions["reasoning"]>;
  maxOutputTokens?: number;
  providerOptions?: SharedV4ProviderOptions;
}

/** Tokens for the answer of a thinking Claude model on Bedrock, whose own default is 4,096. */
const bedrockAnswerTokens = 16_000;

/**
 * The reasoning options of a call. Models that are not known to think get none, because most
 * endpoints refuse them. A requested temperature wins over default thinking: Claude accepts only
 * one of the two.
 */
export function reasoningParameters(
  address: Pick<ModelAddress, "wire" | "modelId">,
  options: CallOptions,
): ReasoningParameters {
  const { wire, modelId } = address;
  const { effort = "high" } = options;
  switch (wire) {
    case "responses":
      return responsesReasoning(modelId, options);
    case "openai":
      return effort !== null && (isOpenAiReasoner(modelId) || /gpt-oss/i.test(modelId))
        ? { reasoning: effort }
        : {};
    case "google":
      return effort !== null && thinksOfGoogle(modelId)
        ? { reasoning: effort, providerOptions: { google: { thinkingConfig: { includeThoughts: true } } } }
        : {};
    case "anthropic":
    case "bedrock":
      return claudeReasoning(wire, modelId, options);
  }
}

/**
 * The provider stores nothing, because the platform keeps the conversation; thoughts come back
 * encrypted.
 */
function responsesReasoning(
  modelId: string,
  { effort = "high", reasoningSummary }: CallOptions,
): ReasoningParameters {
  const openai = {
    store: false,
    reasoningSummary: reasoningSummary ?? null,
    ...(isOpenAiReasoner(modelId) && { forceReasoning: true }),
  };
  return {
    ...(effort !== null && isOpenAiReasoner(modelId) && { reasoning: effort }),
    providerOptions: { openai },
  };
}

function claudeReasoning(
  wire: "anthropic" | "bedrock",
  modelId: string,
  options: CallOptions,
): ReasoningParameters {
  const { effort, thinkingBudget } = options;
  const kind = claudeThinking(modelId);
  const isUnasked = effort === undefined && thinkingBudget === undefined;
  if (!kind || effort === null || (isUnasked && options.temperature !== undefined)) return {};
  if (kind === "effort") return { reasoning: effort ?? "high" };
  if (effort === "none" || thinkingBudget === null || (thinkingBudget !== undefined && thinkingBudget < 1024))
    return {};
  const budgetTokens = Math.min(thinkingBudget ?? maxThinkingBudget(modelId), maxThinkingBudget(modelId));
  if (wire === "bedrock") {
    const maxOutputTokens = options.maxOutputTokens ?? bedrockAnswerTokens;
    return {
      maxOutputTokens,
      providerOptions: { bedrock: { reasoningConfig: { type: "enabled", budgetTokens } } },
    };
  }
  const thinking = { type: "enabled", budgetTokens };
  return { providerOptions: { anthropic: { thinking, anthropicBeta: ["interleaved-thinking-2025-05-14"] } } };
}

/** Gemini models think since 2.5. */
function thinksOfGoogle(modelId: string): boolean {
  const [, major, minor] = /gemini-(\d+)(?:\.(\d+))?/i.exec(modelId) ?? [];
  return Number(major) > 2 || (major === "2" && Number(minor) >= 5);
}
