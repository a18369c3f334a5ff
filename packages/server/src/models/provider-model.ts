import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { lookUpModel } from "./catalogue.ts";
import { ResponseCollector } from "./collect.ts";
import { CallTimeout, describeFailure, type Failure, modelError } from "./failure.ts";
import type { Model, ModelRequest, ModelResponse, RetryNotice } from "./model.ts";
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

/** Told before the wait for another attempt. */
/** A model behind an HTTP endpoint. It keeps nothing between calls. */
export class ProviderModel implements Model {
  readonly name: string;
  readonly contextWindow: number;
  readonly #address: ModelAddress;
  readonly #endpoint: LanguageModelV4;
  readonly #times: CallTimes;
  readonly #onRetry: ((notice: RetryNotice) => void) | undefined;

  constructor(address: ModelAddress, endpoint: LanguageModelV4, times: CallTimes, onRetry?: (notice: RetryNotice) => void) {
    this.name = address.name;
    this.contextWindow = lookUpModel(address.name)?.contextWindow ?? 0;
    this.#address = address;
    this.#endpoint = endpoint;
    this.#times = times;
    this.#onRetry = onRetry;
  }

  async complete(request: ModelRequest): Promise<ModelResponse> {
    const options = this.#callOptions(request);
    for (let attempt = 1; ; attempt++) {
      request.signal.throwIfAborted();
      const collector = new ResponseCollector(this.#address, request.onDelta);
      try {
        await this.#attempt(options, request.signal, collector);
        return collector.response();
      } catch (error) {
        request.signal.throwIfAborted();
        const failure = describeFailure(error);
        const delayMs = collector.hasEmitted ? undefined : nextDelay(failure, attempt, this.#times.retryDelays);
        if (delayMs === undefined) throw this.#error(failure, attempt);
        const notice = { model: this.name, attempt, delayMs, reason: this.#error(failure, attempt).message };
        this.#onRetry?.(notice);
        request.onRetry?.(notice);
        await wait(delayMs, request.signal);
      }
    }
  }

  /** Reads one answer into the collector. Leaving the loop early cancels the stream, which closes the connection. */
  async #attempt(options: LanguageModelV4CallOptions, signal: AbortSignal, collector: ResponseCollector): Promise<void> {
    const stop = new AbortController();
    const expire = (milliseconds: number, what: string) =>
      setTimeout(() => stop.abort(new CallTimeout(`${what} for ${milliseconds / 1000} s`)), milliseconds);
    const total = expire(this.#times.attempt, "the endpoint did not finish its answer");
    let idle: NodeJS.Timeout | undefined;
    const follow = () => stop.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
    try {
      const { stream } = await this.#endpoint.doStream({ ...options, abortSignal: stop.signal });
      for await (const part of stream) {
        clearTimeout(idle);
        collector.add(part);
        if (collector.hasBegun) idle = expire(this.#times.idle, "the endpoint sent nothing");
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
    const { wire, provider, modelId } = this.#address;
    return {
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

  #error(failure: Failure, attempts: number): Error {
    return modelError(this.name, failure, attempts, this.#address.apiKey);
  }
}

/** Models that continue from their own thoughts within a turn; other endpoints refuse the field `reasoning_content`. */
function wantsReasoning(provider: string, modelId: string): boolean {
  return provider === "deepseek" || /deepseek|kimi|minimax|glm-/i.test(modelId);
}
