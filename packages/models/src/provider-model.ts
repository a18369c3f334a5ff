import type { LanguageModelV4, LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { TraceContext } from "@sandpiper/core/outbound/trace-context";
import type { CallOptions } from "./call-options.ts";
import { callParameters } from "./call-parameters.ts";
import type { CatalogueEntry } from "./catalogue.ts";
import { ResponseCollector } from "./collect.ts";
import { type CallFailure, CallTimeout, EmptyResponse, toCallFailure, toModelError } from "./failure.ts";
import { lookAt } from "./look.ts";
import type { Look, Model, ModelRequest, ModelResponse, RetryNotice } from "./model.ts";
import { nextFallback, type ParameterFallbacks } from "./parameter-fallbacks.ts";
import type { Refusals } from "./refusals.ts";
import type { ModelAddress } from "./resolve.ts";
import { nextDelayMs, wait } from "./retry.ts";
import type { SeenEndpoints } from "./seen-endpoints.ts";

/** Times of a call, milliseconds. */
export interface CallTimes {
  /** Waits between attempts; their number plus one is the number of attempts. */
  retryDelays: readonly number[];
  /** Limit of one attempt from request to end of the answer. */
  attempt: number;
  /**
   * Maximum silence between two parts of an answer. The first part may take as long as the attempt.
   */
  idle: number;
}

/** Shorter values of headers are too common in ordinary text to be taken out of errors. */
const minHeaderSecret = 6;

export interface ProviderModelDeps {
  address: ModelAddress;
  /** The client of the endpoint, with or without cache marks of its own. */
  endpoint: (marksCache: boolean) => Promise<LanguageModelV4>;
  times: CallTimes;
  /** Of these, those that are part of a request. */
  options: CallOptions;
  trace: TraceContext | undefined;
  /** For requests without a prompt. */
  fetch: typeof globalThis.fetch;
  facts: CatalogueEntry;
  refusals: Refusals;
  known: SeenEndpoints;
  /** Called before the wait for another attempt. */
  onRetry?: (notice: RetryNotice) => void;
}

/** A model behind an HTTP endpoint. It keeps nothing between calls. */
export class ProviderModel implements Model {
  readonly name: string;
  readonly contextWindow: number;
  readonly #parts: ProviderModelDeps;

  constructor(parts: ProviderModelDeps) {
    this.name = parts.address.name;
    this.contextWindow = parts.facts.contextWindow;
    this.#parts = parts;
  }

  look(signal: AbortSignal): Promise<Look> {
    return lookAt(this.#parts.address, this.#parts.fetch, signal);
  }

  async complete(request: ModelRequest & { stop?: readonly string[] }): Promise<ModelResponse> {
    const { address, facts, times, refusals, known } = this.#parts;
    const began = performance.now();
    let { options } = this.#parts;
    let without: ParameterFallbacks = refusals.has(address, options) ? { parameters: true } : {};
    for (let attempt = 1; ; ) {
      request.signal.throwIfAborted();
      const collector = new ResponseCollector(address, facts, request.onDelta);
      try {
        await this.#attempt(
          callParameters(request, address, options, without),
          without,
          request.signal,
          collector,
        );
        const response = collector.response();
        known.add(address);
        if (without.parameters) refusals.add(address, options);
        return response;
      } catch (error) {
        request.signal.throwIfAborted();
        const failure = toCallFailure(error);
        const concession = nextFallback(failure, without, { parameters: options.dropParameters !== false });
        if (concession && !collector.hasEmitted) {
          without = { ...without, [concession]: true };
          continue;
        }
        // The same again without a temperature would be the same empty answer.
        if (error instanceof EmptyResponse && options.temperature === 0)
          options = { ...options, temperature: 1 };
        const failingMs = known.has(address) ? performance.now() - began : undefined;
        const delayMs = collector.hasEmitted
          ? undefined
          : nextDelayMs(failure, attempt, times.retryDelays, failingMs);
        if (delayMs === undefined) throw this.#error(failure, attempt);
        this.#report(request, {
          model: this.name,
          attempt,
          delayMs,
          reason: this.#error(failure, attempt).message,
        });
        await wait(delayMs, request.signal);
        attempt++;
      }
    }
  }

  #report(request: ModelRequest, notice: RetryNotice): void {
    this.#parts.onRetry?.(notice);
    request.onRetry?.(notice);
  }

  /**
   * Reads one answer into the collector until it is full. Leaving the loop cancels the stream,
   * which closes the connection.
   */
  async #attempt(
    parameters: LanguageModelV4CallOptions,
    without: ParameterFallbacks,
    signal: AbortSignal,
    collector: ResponseCollector,
  ): Promise<void> {
    const { endpoint, options, times, trace } = this.#parts;
    const stop = new AbortController();
    const expire = (milliseconds: number, what: string) =>
      setTimeout(() => stop.abort(new CallTimeout(`${what} for ${milliseconds / 1000} s`)), milliseconds);
    const total = expire(times.attempt, "the endpoint did not finish its answer");
    let idle: NodeJS.Timeout | undefined;
    let isRead = false;
    const follow = () => stop.abort(signal.reason);
    signal.addEventListener("abort", follow, { once: true });
    try {
      const client = await endpoint(options.caching !== false && !without.cache);
      const { stream } = await client.doStream({
        ...parameters,
        ...(trace && { headers: { ...parameters.headers, ...trace } }),
        abortSignal: stop.signal,
      });
      for await (const part of stream) {
        clearTimeout(idle);
        collector.add(part);
        if (collector.isFull) break;
        if (collector.hasBegun) idle = expire(times.idle, "the endpoint sent nothing");
      }
      isRead = !collector.isFull;
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : error;
    } finally {
      clearTimeout(total);
      clearTimeout(idle);
      signal.removeEventListener("abort", follow);
      // A client that reads ahead would continue after its first error.
      if (!isRead) stop.abort();
    }
  }

  #secrets(): string[] {
    const { address, options } = this.#parts;
    const headers = Object.values(options.headers ?? {}).filter((value) => value.length >= minHeaderSecret);
    const { accessKeyId, secretAccessKey, sessionToken } = address.aws?.access ?? {};
    return [address.apiKey, secretAccessKey, sessionToken, accessKeyId, ...headers].filter(
      (value) => value !== undefined,
    );
  }

  #error(failure: CallFailure, attempts: number): Error {
    return toModelError(this.name, failure, attempts, this.#secrets());
  }
}
