import type { SharedV4ProviderOptions } from "@ai-sdk/provider";
import type { CallOptions } from "./call-options.ts";
import { keepsPromptsLonger } from "./openai-models.ts";
import { providers } from "./providers.ts";
import type { ModelAddress } from "./resolve.ts";

/**
 * Whether a prompt carries Claude's cache marks (agent-behaviour.md section 3). Other models cache
 * prompts by themselves.
 */
export function marksCache(
  { wire, modelId }: Pick<ModelAddress, "wire" | "modelId">,
  { caching = true }: CallOptions,
): boolean {
  return caching && (wire === "anthropic" || (wire === "bedrock" && /claude|nova/i.test(modelId)));
}

/**
 * OpenAI's key and duration of the prompt cache. Other endpoints of its protocols refuse or ignore
 * both.
 */
export function cacheKeys(
  address: ModelAddress,
  options: CallOptions,
  cacheKey: string | undefined,
): SharedV4ProviderOptions {
  const { caching = true, cacheRetention = "24h" } = options;
  const isOwn = address.baseUrl === providers.openai?.baseUrl;
  if (!caching || !isOwn || (address.wire !== "openai" && address.wire !== "responses")) return {};
  const retention =
    cacheRetention && keepsPromptsLonger(address.modelId)
      ? { promptCacheRetention: openAiRetention(cacheRetention) }
      : {};
  return { openai: { ...(cacheKey && { promptCacheKey: cacheKey }), ...retention } };
}

function openAiRetention(retention: string): "24h" | "in_memory" {
  return retention === "24h" ? "24h" : "in_memory";
}
