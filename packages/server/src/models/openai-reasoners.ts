/** Reasoning models of OpenAI, also behind proxies. They refuse a temperature and a `top_p`. */
export function isOpenAiReasoner(modelId: string): boolean {
  return /(?:^|\/)(?:o\d|gpt-[5-9])/i.test(modelId);
}

/** The body of a chat completion with the limit of the answer under the only name that these models take. */
export function nameTokenLimit({ max_tokens, ...body }: Record<string, unknown>): Record<string, unknown> {
  return max_tokens === undefined ? body : { ...body, max_completion_tokens: max_tokens };
}
