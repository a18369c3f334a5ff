import { appendPinned, askForSummary, NoSummary } from "@sandpiper/agent/condenser/condense";
import { isHistoryRefused } from "@sandpiper/agent/condenser/refused-history";
import {
  type CondensablePart,
  type CondensationTarget,
  selectAll,
  selectPart,
} from "@sandpiper/agent/condenser/select-part";
import { addUsage, listed, stateRecord } from "@sandpiper/agent/loop/records";
import { condensationFailed } from "@sandpiper/agent/prompt/view";
import { tokensToChars } from "@sandpiper/agent/prompt/view-size";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import { isContextExceeded } from "@sandpiper/models/failure";
import type { Model, RetryNotice } from "@sandpiper/models/model";
import { PromptSizes } from "./prompt-sizes.ts";
import type { RunAgent } from "./run-agent.ts";
import type { RunLog } from "./run-log.ts";

/** Maximum time of one summary with all attempts, ms. */
const timeoutMs = 600_000;

export interface RunCondensingDeps {
  userId: string;
  log: Pick<RunLog, "follower" | "calls" | "stats" | "append" | "publishRetry">;
  agent: Pick<RunAgent, "condenser" | "openCondenser" | "contextLimits">;
  /** USD; null: no limit. */
  budget: number | null;
  signal: AbortSignal;
}

interface Need {
  reason: "request" | "tokens" | "events";
  target: CondensationTarget;
}

/** Keeps the history of one run short enough for its model (agent-behaviour.md section 6). */
export class RunCondensing {
  readonly #deps: RunCondensingDeps;
  readonly #sizes: PromptSizes;
  /** Consecutive prompts that were too long, and the tokens of the last one. */
  #overflows = 0;
  #overflowTokens = Number.POSITIVE_INFINITY;
  /** The provider refused the form of the history, so all of it must be condensed. */
  #isRefused = false;
  /** After a failure, nothing is tried again until the history exceeds these sizes. */
  #tokensBefore = 0;
  #eventsBefore = 0;
  #hasReported = false;
  #requestFailure: PlatformError | undefined;

  constructor(deps: RunCondensingDeps) {
    const { userId, log, agent } = deps;
    this.#deps = deps;
    this.#sizes = new PromptSizes({ userId, follower: log.follower, limits: agent.contextLimits });
  }

  /**
   * Condenses the history if `model` needs it. True: the log has the result of the attempt. Throws
   * what ends the run.
   */
  async beforeStep(model: Model): Promise<boolean> {
    const need = await this.#findNeed(model);
    if (!need) return false;
    await this.#condense(need, model);
    return true;
  }

  /** Why the last summary that a client requested was not made. */
  get requestFailure(): PlatformError | undefined {
    return this.#requestFailure;
  }

  /**
   * Condenses a sleeping conversation on request. `refusal` says why its model must not be called.
   */
  async onRequest(refusal: string | undefined): Promise<void> {
    const { view } = this.#deps.log.follower;
    const need = view.condensationRequested ? await this.#findNeed(undefined) : undefined;
    if (need && refusal !== undefined) await this.#reportFailure(new PlatformError("BudgetReached", refusal));
    else if (need) await this.#condense(need, undefined);
  }

  /**
   * Requests a summary after a call that failed because the prompt was too long or its form was
   * refused. Throws the reason of the signal, or the error itself when a summary does not help, or
   * one with advice when none is possible.
   */
  async recover(error: unknown, model: Model): Promise<void> {
    const { log, userId, agent, signal } = this.#deps;
    signal.throwIfAborted();
    const isRefused = isHistoryRefused(error);
    if (!isContextExceeded(error) && !isRefused) throw error;
    const { code, message } = error as PlatformError;
    const options = await this.#deps.agent.condenser();
    if (!options)
      throw new PlatformError(
        code,
        `${message} This agent has no condenser: enable it, or condense the conversation.`,
      );
    const tokens = this.#sizes.promptTokens();
    if (!isRefused) agent.contextLimits.learn(userId, model, tokens, error);
    const isShorter = tokens < this.#overflowTokens * (1 - options.minimumProgress);
    if (isRefused ? this.#isRefused : !isShorter || this.#overflows >= options.resets)
      throw new PlatformError(
        code,
        `${message} A summary does not make the conversation shorter: choose a model with a larger context, or start a new conversation.`,
      );
    if (isRefused) this.#isRefused = true;
    else {
      this.#overflows += 1;
      this.#overflowTokens = tokens;
    }
    await log.follower.ready;
    await log.append([listed({ kind: "CondensationRequest", source: "environment" })]);
  }

  noteSuccess(model: Model): void {
    const { agent, userId } = this.#deps;
    this.#overflows = 0;
    this.#overflowTokens = Number.POSITIVE_INFINITY;
    this.#isRefused = false;
    agent.contextLimits.unlearn(userId, model, this.#sizes.usage()?.per_turn_token ?? 0);
  }

  async #findNeed(model: Model | undefined): Promise<Need | undefined> {
    const { view } = this.#deps.log.follower;
    const options = await this.#deps.agent.condenser();
    const { keepFirst = 0, minimumProgress: progress = 0 } = options ?? {};
    const limit = this.#sizes.maxTokens(model, options);
    const tokens = this.#sizes.promptTokens();
    // Half of the space after the prefix, which stays.
    const half = {
      keepFirst,
      tokens: Math.floor((Math.min(limit, tokens) + Math.min(limit, this.#sizes.prefixTokens())) / 2),
      progress,
    };
    if (view.condensationRequested)
      return { reason: "request", target: this.#overflows > 0 ? half : { keepFirst } };
    if (!options) return undefined;
    if (tokens > limit && tokens > this.#tokensBefore) return { reason: "tokens", target: half };
    const { eventCount } = view;
    if (eventCount > options.maxSize && eventCount > this.#eventsBefore)
      return { reason: "events", target: { keepFirst, events: Math.floor(options.maxSize / 2), progress } };
    return undefined;
  }

  /**
   * Condenses a part of the history: shorter transcripts when the condenser cannot read them, and
   * the whole history when a part is not enough. Reports why there is no summary, or throws what
   * ends the run.
   */
  async #condense(need: Need, model: Model | undefined): Promise<void> {
    const { log, signal } = this.#deps;
    const { view } = log.follower;
    const options = await this.#deps.agent.condenser();
    const { resets = 0, scaling = 1, minimumProgress = 0 } = options ?? {};
    const isForced = this.#overflows > 0 || this.#isRefused;
    // A request for a partial summary must not remove the rest too.
    const isAsked = need.reason === "request" && !isForced;
    const mayReset = !isAsked && need.reason !== "events";
    const limit = Math.min(
      this.#sizes.maxTokens(model, options),
      isForced ? this.#sizes.promptTokens() : Number.POSITIVE_INFINITY,
    );
    let isReset = this.#isRefused || this.#overflows > 1;
    let failure: unknown;
    for (let attempt = 0; attempt <= resets; attempt++) {
      const scale = scaling ** (attempt + Math.max(0, this.#overflows - 1));
      const part = isReset ? selectAll(view, (limit * scale) / 8) : selectPart(view, need.target);
      try {
        if (!part) throw new HistoryTooShort();
        return await this.#summarise(part, limit * scale, scale);
      } catch (error) {
        signal.throwIfAborted();
        failure = failure instanceof NoSummary ? failure : error;
        // A failed call would fail with less history too, unless the prompt was too long.
        if (isContextExceeded(error)) continue;
        const isUseless = error instanceof HistoryTooShort ? isReset : !(error instanceof NoSummary);
        if (!mayReset || isUseless) break;
        isReset = true;
      }
    }
    if (isForced) throw this.#makeFinalError(failure);
    this.#tokensBefore = this.#sizes.promptTokens() * (1 + minimumProgress);
    this.#eventsBefore = view.eventCount * (1 + minimumProgress);
    // A history that is too short to condense is sent as it is.
    if (isAsked || (!this.#hasReported && !(failure instanceof HistoryTooShort)))
      await this.#reportFailure(failure, isAsked);
    if (!isAsked) this.#hasReported = true;
  }

  /** Condenses one part. The cost of the call counts even without a summary. */
  async #summarise(part: CondensablePart, room: number, scale: number): Promise<void> {
    const { log, agent, userId, budget } = this.#deps;
    const model = log.calls.sideCall(await agent.openCondenser(), "condenser");
    const onRetry = (notice: RetryNotice) => log.publishRetry(notice);
    const bounds = this.#sizes.summaryBounds(model, room, scale);
    const signal = AbortSignal.any([this.#deps.signal, AbortSignal.timeout(timeoutMs)]);
    const { text, response } = await askForSummary(part, model, bounds, { signal, onRetry }).catch(
      (error: unknown) => {
        if (isContextExceeded(error))
          agent.contextLimits.learn(userId, model, bounds.transcript / tokensToChars(1), error);
        throw error;
      },
    );
    const stats = addUsage(log.stats, "condenser", model.name, response, budget);
    if (text === "") {
      await log.append([stateRecord("stats", stats)]);
      throw new NoSummary(model.name);
    }
    const record = listed({
      kind: "Condensation",
      source: "environment",
      forgotten_event_ids: part.eventIds,
      summary: appendPinned(text, log.follower.view, part, bounds.summary),
      summary_offset: part.offset,
      llm_response_id: response.id,
    });
    await log.append([record, stateRecord("stats", stats)]);
  }

  #makeFinalError(failure: unknown): PlatformError {
    const reason = errorText(failure);
    return new PlatformError(this.#isRefused ? "HistoryRefused" : "HistoryTooLong", { reason });
  }

  #reportFailure(failure: unknown, isAsked = true): Promise<void> {
    const detail = `The history could not be summarised: ${errorText(failure)}`;
    if (isAsked) this.#requestFailure = toPlatformError(failure, detail);
    const event = {
      kind: "ConversationErrorEvent",
      source: "environment",
      code: condensationFailed,
      detail,
    } as const;
    return this.#deps.log.append([listed(event)]).then(() => {});
  }
}

/** The same code with the text of the event. */
function toPlatformError(failure: unknown, detail: string): PlatformError {
  return new PlatformError(failure instanceof PlatformError ? failure.code : "ModelFailed", detail);
}

class HistoryTooShort extends PlatformError {
  constructor() {
    super("HistoryTooShort");
  }
}
