import type { GivenLlm, LlmDiff } from "@sandpiper/wire";
import { PlatformError } from "../errors.ts";

/** How a model is called, beside where it is. What is absent is left to the endpoint, the catalogue and the server. */
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
  /** Sent with each request, in the place of what the client of the endpoint would send under the same name. Values are secret. */
  headers?: Readonly<Record<string, string>>;
  /** USD per token, in the place of the catalogue's. */
  inputPrice?: number;
  outputPrice?: number;
  /** Tokens, in the place of the catalogue's. */
  contextWindow?: number;
}

/** Most attempts of a call. */
const maxAttempts = 20;

/** The longest that one attempt may take, seconds. */
export const maxTimeout = 3_600;

/** Headers that belong to the connection. `host` could lead a key of the operator to another site behind the same address. */
const connectionHeaders =
  /^(?:host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-(?:length|type|encoding)|proxy-.*)$/i;

/**
 * What a client says about the calls of a model (agent-server.md section 3.1, LLM). A masked header is none. Of the rest of an LLM the effort and
 * caching flags are not sent: clients give defaults for all of them, which many endpoints refuse. A `top_p` of 1 says nothing, and some models
 * refuse it beside a temperature.
 */
export function callOptions(llm: GivenLlm | LlmDiff): CallOptions | undefined {
  const headers = Object.entries(llm.extra_headers ?? {}).filter(
    ([, value]) => typeof value === "string" && !/^\*+$/.test(value),
  );
  const wanted = {
    temperature: llm.temperature,
    topP: llm.top_p === 1 ? null : llm.top_p,
    topK: llm.top_k,
    seed: llm.seed,
    maxOutputTokens: llm.max_output_tokens,
    timeout: llm.timeout,
    attempts: llm.num_retries,
    headers: headers.length > 0 ? Object.fromEntries(headers) : null,
    inputPrice: llm.input_cost_per_token,
    outputPrice: llm.output_cost_per_token,
    contextWindow: llm.max_input_tokens,
  };
  const given = Object.entries(wanted).filter(([, value]) => value !== undefined && value !== null);
  return given.length > 0 ? (Object.fromEntries(given) as CallOptions) : undefined;
}

/** The part of the options that belongs to the address and not to the model. */
export function addressOptions(options: CallOptions | undefined): { options?: CallOptions } {
  return options?.headers ? { options: { headers: options.headers } } : {};
}

/** Milliseconds that an attempt may take. A time-out of 0 is none of its own. */
export function attemptTime(usual: number, { timeout }: CallOptions): number {
  return timeout ? Math.min(timeout, maxTimeout) * 1000 : usual;
}

/** The waits between as many attempts as wanted: the usual ones, and the last of them again. */
export function waitsFor(usual: readonly number[], { attempts }: CallOptions): readonly number[] {
  if (attempts === undefined || usual.length === 0) return usual;
  const count = Math.max(0, Math.min(attempts, maxAttempts) - 1);
  return Array.from({ length: count }, (_, index) => usual[Math.min(index, usual.length - 1)]!);
}

/** A fetch that sends these headers, too. Throws ModelNotConfigured, without the value, for one that cannot be sent. */
export function withHeaders(fetch: typeof globalThis.fetch, { headers: extra }: CallOptions): typeof globalThis.fetch {
  if (!extra) return fetch;
  for (const [name, value] of Object.entries(extra)) {
    const shown = JSON.stringify(name.slice(0, 100));
    if (!/^[!#$%&'*+.^_`|~\w-]+$/.test(name) || connectionHeaders.test(name)) {
      throw new PlatformError("ModelNotConfigured", `The header ${shown} of the model's extra_headers cannot be set.`);
    }
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(value)) {
      throw new PlatformError(
        "ModelNotConfigured",
        `The header ${shown} of the model's extra_headers holds a character that HTTP cannot carry.`,
      );
    }
  }
  return (input, init) => {
    const headers = new Headers(init?.headers);
    for (const [name, value] of Object.entries(extra)) headers.set(name, value);
    return fetch(input, { ...init, headers });
  };
}
