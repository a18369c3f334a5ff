/**
 * Reasoning models of OpenAI, also behind proxies. They refuse a temperature and a `top_p`.
 * Responses keep their thoughts between calls; some models support responses only.
 */
export function isOpenAiReasoner(modelId: string): boolean {
  return /(?:^|\/)(?:o\d|gpt-[5-9]|codex-)/i.test(modelId) && !/chat/i.test(modelId);
}

/** Models whose prompts OpenAI caches for a day on request (agent-behaviour.md section 3). */
export function keepsPromptsLonger(modelId: string): boolean {
  return /^gpt-(?:5|4\.1)/i.test(modelId) && (!/mini/i.test(modelId) || /codex-mini/i.test(modelId));
}

/**
 * The body of a chat completion with the limit of the answer under the name that these models
 * require.
 */
export function renameTokenLimit({ max_tokens, ...body }: Record<string, unknown>): Record<string, unknown> {
  return max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens };
}
