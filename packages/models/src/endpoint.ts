import { createAmazonBedrock } from "@ai-sdk/amazon-bedrock";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createGoogle } from "@ai-sdk/google";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { LanguageModelV4 } from "@ai-sdk/provider";
import { guardedFetch } from "./guarded-fetch.ts";
import { markCacheableBody } from "./openai-cache.ts";
import { isOpenAiReasoner, renameTokenLimit } from "./openai-models.ts";
import { providers } from "./providers.ts";
import { detailsExtractor, hasReasoningDetails } from "./reasoning-details.ts";
import type { ModelAddress } from "./resolve.ts";

/** Placeholder key for endpoints without one: without it the SDK would read the environment. */
const noKey = "none";

/**
 * The AI SDK's client for an address. Every option is set, so that the SDK reads nothing from the
 * environment.
 */
export function openEndpoint(
  address: ModelAddress,
  fetch: typeof globalThis.fetch,
  { marksCache = true }: { marksCache?: boolean } = {},
): LanguageModelV4 {
  const { modelId, baseUrl: baseURL } = address;
  const guarded = guardedFetch(fetch);
  const apiKey = address.apiKey ?? noKey;
  switch (address.wire) {
    case "anthropic":
      return createAnthropic({ baseURL, apiKey, fetch: guarded })(modelId);
    case "google":
      return createGoogle({ baseURL, apiKey, fetch: guarded })(modelId);
    case "bedrock":
      return openBedrock(address, guarded);
    case "responses":
      return createOpenAI({ baseURL, apiKey, fetch: guarded }).responses(modelId);
  }
  // The SDK's OpenAI client knows what OpenAI's models refuse; other endpoints get plain chat
  // completions.
  if (baseURL === providers.openai?.baseUrl)
    return createOpenAI({ baseURL, apiKey, fetch: guarded }).chat(modelId);
  return createOpenAICompatible({
    name: "compatible",
    baseURL,
    ...(address.apiKey && { apiKey: address.apiKey }),
    fetch: guarded,
    includeUsage: true,
    ...(hasReasoningDetails(address) && { metadataExtractor: detailsExtractor }),
    ...(marksCache && /claude/i.test(modelId) && { transformRequestBody: markCacheableBody }),
    ...(isOpenAiReasoner(modelId) && { transformRequestBody: renameTokenLimit }),
  }).chatModel(modelId);
}

/** An empty key keeps the SDK from reading the environment. */
function openBedrock(
  { modelId, baseUrl: baseURL, apiKey = "", aws }: ModelAddress,
  fetch: typeof globalThis.fetch,
): LanguageModelV4 {
  const { accessKeyId = noKey, secretAccessKey = noKey, sessionToken } = aws?.access ?? {};
  const credentials = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) };
  const region = aws?.region ?? "us-east-1";
  return createAmazonBedrock({ baseURL, apiKey, region, ...credentials, fetch })(modelId);
}
