import type { GivenLlm, LlmDiff } from "@sandpiper/wire";

const efforts = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

export type Effort = (typeof efforts)[number];

/**
 * How a model is called, except for its address. An absent option has the default of the endpoint,
 * the catalogue, the server or the settings; null leaves it to the endpoint.
 */
export interface CallOptions {
  temperature?: number;
  topP?: number;
  topK?: number;
  seed?: number;
  maxOutputTokens?: number;
  /** Limit of one attempt, seconds. */
  timeout?: number;
  /** Attempts in all; 0 means one, too. */
  attempts?: number;
  /** Waits between attempts: `multiplier` seconds, doubled each time, within these. */
  minWait?: number;
  maxWait?: number;
  multiplier?: number;
  /** Sent with each request; overrides the client's headers of the same name. Values are secret. */
  headers?: Readonly<Record<string, string>>;
  /** USD per token, in the place of the catalogue's. */
  inputPrice?: number;
  outputPrice?: number;
  /** Tokens, in the place of the catalogue's. */
  contextWindow?: number;
  /** The name under which the catalogue knows the model. */
  knownAs?: string;
  /** How much the model thinks, where it thinks. Default: high. */
  effort?: Effort | null;
  /**
   * Token budget for the thoughts of Claude models. Default: 200,000, which means the model's
   * maximum.
   */
  thinkingBudget?: number | null;
  /** Summaries of thoughts, of OpenAI's responses. */
  reasoningSummary?: string;
  /** Prompt caching; default: on. */
  caching?: boolean;
  /** How long OpenAI keeps prompts. Default: 24h. */
  cacheRetention?: string | null;
  /** False: tools are described and called in text. */
  nativeTools?: boolean;
  /** False: calls in text end with no stop word. */
  stopWord?: boolean;
  /** Whether images are sent. Default: as is known of the model. */
  vision?: boolean;
  /** Characters of a tool's text that are sent. */
  maxToolChars?: number;
  /** Whether parameters that an endpoint refuses are left out. Default: yes. */
  dropParameters?: boolean;
  /** Added to the body of each request. */
  extraBody?: Readonly<Record<string, unknown>>;
  apiMode?: "auto" | "chat" | "responses";
}

/** Most attempts of a call. */
const maxAttempts = 20;

/** The longest that one attempt may take, seconds. */
export const maxTimeout = 3_600;

/** The longest wait between two attempts, seconds. */
const longestWait = 120;

/**
 * Reads a client's options of a model (agent-server.md section 3.1, LLM). Masked headers are
 * ignored. A `top_p` of 1 is the default, and some models refuse it together with a temperature.
 */
export function parseCallOptions(llm: GivenLlm | LlmDiff): CallOptions | undefined {
  const wanted: Record<keyof CallOptions, unknown> = {
    temperature: llm.temperature,
    topP: llm.top_p === 1 ? null : llm.top_p,
    topK: llm.top_k,
    seed: llm.seed,
    maxOutputTokens: llm.max_output_tokens,
    timeout: llm.timeout,
    attempts: llm.num_retries,
    minWait: llm.retry_min_wait,
    maxWait: llm.retry_max_wait,
    multiplier: llm.retry_multiplier,
    headers: ownHeaders(llm),
    inputPrice: llm.input_cost_per_token,
    outputPrice: llm.output_cost_per_token,
    contextWindow: llm.max_input_tokens,
    knownAs: llm.model_canonical_name || null,
    effort: efforts.find((effort) => effort === llm.reasoning_effort),
    thinkingBudget: llm.extended_thinking_budget,
    reasoningSummary: llm.reasoning_summary,
    caching: llm.caching_prompt,
    cacheRetention: llm.prompt_cache_retention,
    nativeTools: llm.native_tool_calling,
    stopWord: llm.disable_stop_word === true ? false : null,
    vision: llm.disable_vision === true ? false : null,
    maxToolChars: llm.max_message_chars,
    dropParameters: llm.drop_params,
    extraBody:
      llm.litellm_extra_body && Object.keys(llm.litellm_extra_body).length > 0
        ? llm.litellm_extra_body
        : null,
    apiMode: llm.api_mode === "chat" || llm.api_mode === "responses" ? llm.api_mode : null,
  };
  const left = {
    effort: llm.reasoning_effort,
    thinkingBudget: llm.extended_thinking_budget,
    cacheRetention: llm.prompt_cache_retention,
  };
  const given = [
    ...Object.entries(wanted).filter(([, value]) => value !== undefined && value !== null),
    ...Object.entries(left).filter(([, value]) => value === null),
  ];
  return given.length > 0 ? (Object.fromEntries(given) as CallOptions) : undefined;
}

/** Headers that were given, and those by which OpenRouter names the application. */
function ownHeaders(llm: GivenLlm | LlmDiff): Record<string, string> | null {
  const { openrouter_site_url: site, openrouter_app_name: title } = llm;
  const router = /^openrouter\//i.test(llm.model ?? "")
    ? { ...(site && { "HTTP-Referer": site }), ...(title && { "X-Title": title }) }
    : {};
  const given = Object.entries(llm.extra_headers ?? {}).filter(
    ([, value]) => typeof value === "string" && !/^\*+$/.test(value),
  );
  const headers = { ...router, ...Object.fromEntries(given) };
  return Object.keys(headers).length > 0 ? headers : null;
}

/** The part of the options that belongs to the address and not to the model. */
export function addressOptions(options: CallOptions | undefined): { options?: CallOptions } {
  return options?.headers ? { options: { headers: options.headers } } : {};
}

/** Time limit of an attempt in milliseconds. 0 means no own limit. */
export function attemptTimeoutMs(usual: number, { timeout }: CallOptions): number {
  return timeout ? Math.min(timeout, maxTimeout) * 1000 : usual;
}

/**
 * Waits between the requested number of attempts, in milliseconds: the requested waits or the
 * defaults; the last one repeats.
 */
export function retryDelaysMs(usual: readonly number[], options: CallOptions): readonly number[] {
  const { attempts, minWait, maxWait, multiplier } = options;
  const isAsked = minWait !== undefined || maxWait !== undefined || multiplier !== undefined;
  if ((attempts === undefined && !isAsked) || usual.length === 0) return usual;
  const count = attempts === undefined ? usual.length : Math.max(0, Math.min(attempts, maxAttempts) - 1);
  return Array.from({ length: count }, (_, index) => {
    if (!isAsked) return usual[Math.min(index, usual.length - 1)]!;
    const seconds = Math.min(Math.max((multiplier ?? 8) * 2 ** index, minWait ?? 8), maxWait ?? 64);
    return Math.min(seconds, longestWait) * 1000;
  });
}
