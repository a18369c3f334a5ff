/**
 * Reasoning models of OpenAI, also behind proxies. They refuse a temperature and a `top_p`, and keep their thoughts between calls when they are
 * reached by responses; some are reached by nothing else.
 */
export function isOpenAiReasoner(modelId: string): boolean {
  return /(?:^|\/)(?:o\d|gpt-[5-9]|codex-)/i.test(modelId) && !/chat/i.test(modelId);
}

/** Models whose prompts OpenAI keeps for a day where that is asked for (agent-behaviour.md section 3). */
export function keepsPromptsLonger(modelId: string): boolean {
  return /^gpt-(?:5|4\.1)/i.test(modelId) && (!/mini/i.test(modelId) || /codex-mini/i.test(modelId));
}

/** The body of a chat completion with the limit of the answer under the only name that these models take. */
export function nameTokenLimit({ max_tokens, ...body }: Record<string, unknown>): Record<string, unknown> {
  return max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens };
}
