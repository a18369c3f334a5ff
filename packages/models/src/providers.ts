/**
 * Protocols of models. `openai` is chat completions, `responses` its successor, `bedrock` Converse.
 */
export type Wire = "openai" | "responses" | "anthropic" | "google" | "bedrock";

export interface Provider {
  /** How messages name it. */
  title: string;
  wire: Wire;
  /** Where it answers when no base URL is configured; absent: a base URL is needed. */
  baseUrl?: string;
  /**
   * Environment variables that may hold the provider's key, first match wins. Empty: no key is
   * needed.
   */
  keyVariables: string[];
}

const google: Provider = {
  title: "Google Gemini",
  wire: "google",
  baseUrl: "https://generativelanguage.googleapis.com/v1beta",
  keyVariables: ["GEMINI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY", "GOOGLE_API_KEY"],
};

/** By the first segment of a model's name. */
export const providers: Readonly<Record<string, Provider>> = {
  openai: {
    title: "OpenAI",
    wire: "openai",
    baseUrl: "https://api.openai.com/v1",
    keyVariables: ["OPENAI_API_KEY"],
  },
  anthropic: {
    title: "Anthropic",
    wire: "anthropic",
    baseUrl: "https://api.anthropic.com/v1",
    keyVariables: ["ANTHROPIC_API_KEY"],
  },
  gemini: google,
  google,
  bedrock: { title: "Amazon Bedrock", wire: "bedrock", keyVariables: ["AWS_BEARER_TOKEN_BEDROCK"] },
  openrouter: compatible("OpenRouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
  mistral: compatible("Mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
  deepseek: compatible("DeepSeek", "https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"),
  groq: compatible("Groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY"),
  xai: compatible("xAI", "https://api.x.ai/v1", "XAI_API_KEY"),
  openhands: compatible("OpenHands", "https://llm-proxy.app.all-hands.dev/v1", "OPENHANDS_API_KEY"),
  litellm_proxy: compatible("LiteLLM proxy", undefined, "LITELLM_PROXY_API_KEY"),
  azure: compatible("Azure OpenAI", undefined, "AZURE_API_KEY"),
  hosted_vllm: { title: "vLLM", wire: "openai", keyVariables: [] },
  lm_studio: { title: "LM Studio", wire: "openai", baseUrl: "http://127.0.0.1:1234/v1", keyVariables: [] },
  ollama: { title: "Ollama", wire: "openai", baseUrl: "http://127.0.0.1:11434/v1", keyVariables: [] },
};

function compatible(title: string, baseUrl: string | undefined, keyVariable: string): Provider {
  return { title, wire: "openai", ...(baseUrl && { baseUrl }), keyVariables: [keyVariable] };
}

const bareNames: [RegExp, string][] = [
  [/^(gpt-|chatgpt-|codex-|o\d)/, "openai"],
  [/^claude-/, "anthropic"],
  [/^gemini-/, "gemini"],
  [/^deepseek-/, "deepseek"],
  [/^grok-/, "xai"],
  [/^(mistral-|codestral|devstral|magistral|ministral)/, "mistral"],
];

/** The most likely provider of a bare name, for example `openai` for `gpt-5`. */
export function guessProvider(bareName: string): string | undefined {
  return bareNames.find(([pattern]) => pattern.test(bareName.toLowerCase()))?.[1];
}
