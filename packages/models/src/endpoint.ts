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
 * environment. A provider's SDK is loaded with its first client: a server seldom needs all of them.
 */
export async function openEndpoint(
  address: ModelAddress,
  fetch: typeof globalThis.fetch,
  { marksCache = true }: { marksCache?: boolean } = {},
): Promise<LanguageModelV4> {
  const { modelId, baseUrl: baseURL } = address;
  const guarded = guardedFetch(fetch);
  const apiKey = address.apiKey ?? noKey;
  switch (address.wire) {
    case "anthropic": {
      const { createAnthropic } = await import("@ai-sdk/anthropic");
      return createAnthropic({ baseURL, apiKey, fetch: guarded })(modelId);
    }
    case "google": {
      const { createGoogle } = await import("@ai-sdk/google");
      return createGoogle({ baseURL, apiKey, fetch: guarded })(modelId);
    }
    case "bedrock":
      return openBedrock(address, guarded);
    case "responses": {
      const { createOpenAI } = await import("@ai-sdk/openai");
      return createOpenAI({ baseURL, apiKey, fetch: guarded }).responses(modelId);
    }
  }
  // The SDK's OpenAI client knows what OpenAI's models refuse; other endpoints get plain chat
  // completions.
  if (baseURL === providers.openai?.baseUrl) {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return createOpenAI({ baseURL, apiKey, fetch: guarded }).chat(modelId);
  }
  const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
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
async function openBedrock(
  { modelId, baseUrl: baseURL, apiKey = "", aws }: ModelAddress,
  fetch: typeof globalThis.fetch,
): Promise<LanguageModelV4> {
  const { createAmazonBedrock } = await import("@ai-sdk/amazon-bedrock");
  const { accessKeyId = noKey, secretAccessKey = noKey, sessionToken } = aws?.access ?? {};
  const credentials = { accessKeyId, secretAccessKey, ...(sessionToken && { sessionToken }) };
  const region = aws?.region ?? "us-east-1";
  return createAmazonBedrock({ baseURL, apiKey, region, ...credentials, fetch })(modelId);
}
