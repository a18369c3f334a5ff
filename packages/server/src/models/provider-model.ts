import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { CallOptions } from "./call-options.ts";
import type { CatalogueEntry } from "./catalogue.ts";
import { ResponseCollector } from "./collect.ts";
import { CallTimeout, describeFailure, type Failure, modelError } from "./failure.ts";
import type { Model, ModelRequest, ModelResponse, RetryNotice } from "./model.ts";
import { isOpenAiReasoner } from "./openai-reasoners.ts";
import { toPrompt } from "./prompt.ts";
import type { ModelAddress } from "./resolve.ts";
import { nextDelay, wait } from "./retry.ts";

/** Times of a call, milliseconds. */
export interface CallTimes {
  /** Waits between attempts; their number plus one is the number of attempts. */
  retryDelays: readonly number[];
  /** Limit of one attempt from request to end of the answer. */
  attempt: number;
  /** Longest silence between two pieces of an answer. Before the first, a model may think for as long as the attempt lasts. */
  idle: number;
}

/** Shorter values of headers are too common in ordinary text to be taken out of errors. */
const minHeaderSecret = 6;

export interface ProviderModelParts {
  address: ModelAddress;
  endpoint: LanguageModelV4;
  times: CallTimes;
  /** Of these, those that are part of a request. */
  options: CallOptions;
  facts: CatalogueEntry;
  /** Told before the wait for another attempt. */
  onRetry?: (notice: RetryNotice) => void;
}

/** A model behind an HTTP endpoint. It keeps nothing between calls. */
export class ProviderModel implements Model {
  readonly name: string;
  readonly contextWindow: number;
  readonly #parts: ProviderModelParts;

  constructor(parts: ProviderModelParts) {
    this.name = parts.address.name;
    this.contextWindow = parts.facts.contextWindow;
    this.#parts = parts;
  }

  async complete(request: ModelRequest): Promise<ModelResponse> {
    const options = this.#callOptions(request);
    const { address, facts, times, onRetry } = this.#parts;
    for (let attempt = 1; ; attempt++) {
      request.signal.throwIfAborted();
      const collector = new ResponseCollector(address, facts, request.onDelta);
      try {
        await this.#attempt(options, request.signal, collector);
        return collector.response();
      } catch (error) {
        request.signal.throwIfAborted();
        const failure = describeFailure(error);
        const delayMs = collector.hasEmitted ? undefined : nextDelay(failure, attempt, times.retryDelays);
        if (delayMs === undefined) throw this.#error(failure, attempt);
        const notice = { model: this.name, attempt, delayMs, reason: this.#error(failure, attempt).message };
        onRetry?.(notice);
        request.onRetry?.(notice);
        await wait(delayMs, request.signal);
      }
    }
  }

  /** Reads one answer into the collector. Leaving the loop early cancels the stream, which closes the connection. */
  async #attempt(options: LanguageModelV4CallOptions, signal: AbortSignal, collector: ResponseCollector): Promise<void> {
    const { endpoint, times } = this.#parts;
    const stop = new AbortController();
    const expire = (milliseconds: number, what: string) =>
      setTimeout(() => stop.abort(new CallTimeout(`${what} for ${milliseconds / 1000} s`)), milliseconds);
    const total = expire(times.attempt, "the endpoint did not finish its answer");
    let idle: NodeJS.Timeout | undefined;
    const follow = () => stop.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
    try {
      const { stream } = await endpoint.doStream({ ...options, abortSignal: stop.signal });
      for await (const part of stream) {
        clearTimeout(idle);
        collector.add(part);
        if (collector.hasBegun) idle = expire(times.idle, "the endpoint sent nothing");
      }
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : error;
    } finally {
      clearTimeout(total);
      clearTimeout(idle);
      signal.removeEventListener("abort", follow);
    }
  }

  #callOptions(request: ModelRequest): LanguageModelV4CallOptions {
    const { wire, provider, modelId } = this.#parts.address;
    const { temperature, topP, topK, seed, maxOutputTokens } = this.#parts.options;
    const sampling = { temperature, topP, topK };
    return {
      ...(!(wire === "openai" && isOpenAiReasoner(modelId)) && sampling),
      seed,
      maxOutputTokens,
      prompt: toPrompt(request, { wire, replayReasoning: wantsReasoning(provider, modelId) }),
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

  #secrets(): string[] {
    const { address, options } = this.#parts;
    const headers = Object.values(options.headers ?? {}).filter((value) => value.length >= minHeaderSecret);
    return address.apiKey ? [address.apiKey, ...headers] : headers;
  }

  #error(failure: Failure, attempts: number): Error {
    return modelError(this.name, failure, attempts, this.#secrets());
  }
}

/** Models that continue from their own thoughts within a turn; other endpoints refuse the field `reasoning_content`. */
function wantsReasoning(provider: string, modelId: string): boolean {
  return provider === "deepseek" || /deepseek|kimi|minimax|glm-/i.test(modelId);
}
