import type { LanguageModelV4CallOptions, SharedV4ProviderOptions } from "@ai-sdk/provider";
import { cacheKeys, marksCache } from "./caching.ts";
import type { CallOptions } from "./call-options.ts";
import { type ImageSupport, isTextOnly } from "./images.ts";
import type { ModelRequest } from "./model.ts";
import { isOpenAiReasoner } from "./openai-models.ts";
import type { ParameterFallbacks } from "./parameter-fallbacks.ts";
import { toPrompt } from "./prompt.ts";
import { reasoningParameters } from "./reasoning.ts";
import type { ModelAddress } from "./resolve.ts";

/** A request as the client of an endpoint takes it, without what the endpoint refused before. */
export function callParameters(
  request: Pick<ModelRequest, "system" | "messages" | "tools" | "cacheKey"> & { stop?: readonly string[] },
  address: ModelAddress,
  options: CallOptions,
  without: ParameterFallbacks,
): LanguageModelV4CallOptions {
  const { wire, provider, modelId } = address;
  const thinking =
    without.parameters || without.thoughts ? storeNothing(address) : reasoningParameters(address, options);
  const keys = without.cache ? {} : cacheKeys(address, options, request.cacheKey);
  return {
    ...(!without.parameters && sampling(address, options)),
    maxOutputTokens: thinking.maxOutputTokens ?? options.maxOutputTokens,
    ...(thinking.reasoning && { reasoning: thinking.reasoning }),
    ...(request.stop && { stopSequences: [...request.stop] }),
    providerOptions: merged(thinking.providerOptions, keys, bedrockFields(address, options)),
    prompt: toPrompt(request, {
      wire,
      replayReasoning: !without.thoughts && wantsReasoning(provider, modelId),
      thoughts: !without.thoughts,
      model: address.name,
      marksCache: !without.cache && marksCache(address, options),
      images: without.images ? "refused" : imageSupport(address, options),
      maxToolChars: options.maxToolChars,
    }),
    ...(request.tools.length > 0 && {
      tools: request.tools.map((tool) => ({
        type: "function",
        name: tool.name,
        description: tool.description,
        inputSchema: tool.parameters,
      })),
      toolChoice: { type: "auto" },
    }),
  };
}

/** OpenAI's reasoning models refuse a temperature and the like, on whatever endpoint. */
function sampling({ wire, modelId }: ModelAddress, { temperature, topP, topK, seed }: CallOptions) {
  const refuses = (wire === "openai" || wire === "responses") && isOpenAiReasoner(modelId);
  return { ...(!refuses && { temperature, topP, topK }), seed };
}

/** Minimal reasoning parameters of a request: the platform keeps the conversation itself. */
function storeNothing({ wire, modelId }: ModelAddress): ReturnType<typeof reasoningParameters> {
  return wire === "responses" ? reasoningParameters({ wire, modelId }, { effort: null }) : {};
}

function imageSupport({ wire, modelId }: ModelAddress, { vision }: CallOptions): ImageSupport {
  if (!(vision ?? !isTextOnly(modelId))) return "none";
  return wire === "bedrock" ? "inline" : "any";
}

/**
 * Models that continue from their own thoughts within a turn; other endpoints refuse
 * `reasoning_content`.
 */
function wantsReasoning(provider: string, modelId: string): boolean {
  return provider === "deepseek" || /deepseek|kimi|minimax|glm-/i.test(modelId);
}

/** Bedrock's client signs the requests, so additional fields pass through it. */
function bedrockFields({ wire }: ModelAddress, { extraBody }: CallOptions): SharedV4ProviderOptions {
  if (wire !== "bedrock" || !extraBody) return {};
  return { bedrock: { additionalModelRequestFields: extraBody as SharedV4ProviderOptions[string] } };
}

/** Options of the same provider together. */
function merged(...all: (SharedV4ProviderOptions | undefined)[]): SharedV4ProviderOptions {
  const result: SharedV4ProviderOptions = {};
  for (const options of all) {
    for (const [name, value] of Object.entries(options ?? {})) result[name] = { ...result[name], ...value };
  }
  return result;
}
