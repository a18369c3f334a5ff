import { maskModel } from "@sandpiper/agent/masking/masked-model";
import { modelTools } from "@sandpiper/agent/tools/call";
import { PlatformError } from "@sandpiper/core/errors";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { ModelRequest, OpenModel } from "@sandpiper/models/model";
import { recordSideCalls } from "@sandpiper/models/recording/side-calls";
import type { GivenLlm } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { OutputMasks } from "../agent/output-masks.ts";
import type { RunLimits, Runner } from "./runner.ts";

/** Time for one side call, ms. */
const timeoutMs = 300_000;

/**
 * Maximum concurrent questions of one user, and those that run or wait: each sends the whole
 * history, and the limit of runs does not apply.
 */
const maxConcurrentQuestions = 4;
const maxWaitingQuestions = 100;

export interface SideCallsDeps {
  agents: Pick<AgentConfigResolver, "model" | "resolveModel">;
  runner: Pick<Runner, "addUsage" | "histories">;
  masks: OutputMasks;
  store: Pick<Store, "events">;
  scheduler: TurnScheduler;
  openModel: OpenModel;
  limits: Pick<RunLimits, "dailyBudget">;
}

/** Model calls that append no event; their cost has its own usage id. */
export class SideCalls {
  readonly #deps: SideCallsDeps;
  readonly #closing = new AbortController();
  readonly #slots = new KeyedSemaphore([maxConcurrentQuestions]);
  readonly #queue = new KeyedSemaphore([maxWaitingQuestions]);

  constructor(deps: SideCallsDeps) {
    this.#deps = deps;
  }

  /**
   * Asks a question after the whole history and returns the answer. Throws what the model call
   * throws, BudgetReached, and TooManyRequests when too many questions wait.
   */
  async ask(row: ConversationRow, question: string): Promise<string> {
    const leave = this.#queue.tryAcquire([row.userId]);
    if (!leave) throw new PlatformError("TooManyQuestions", { retryAfter: 1 });
    const release = await this.#slots.acquire([row.userId], this.#closing.signal);
    try {
      this.#closing.signal.throwIfAborted();
      const { system, messages, tools } = await this.#deps.runner.histories.promptHistory(row);
      const asked = [...messages, { role: "user" as const, content: [textContent(question)] }];
      // Providers reject calls in the history of tools that the request does not list.
      const request = { system, messages: asked, tools: modelTools(tools), cacheKey: row.id };
      return await this.#complete(row, "ask-agent", request);
    } finally {
      release?.();
      leave();
    }
  }

  /** Asks without the history, by `llm` or the conversation's model. Throws what `ask` throws. */
  async askWithoutHistory(
    row: ConversationRow,
    usageId: string,
    system: string,
    question: string,
    llm?: GivenLlm,
  ): Promise<string> {
    const messages = [{ role: "user" as const, content: [textContent(question)] }];
    return this.#complete(row, usageId, { system: [system], messages, tools: [] }, llm);
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }

  async #complete(
    row: ConversationRow,
    usageId: string,
    request: Omit<ModelRequest, "signal">,
    llm?: GivenLlm,
  ): Promise<string> {
    const { agents, openModel, runner, limits, masks, store, scheduler } = this.#deps;
    const exhausted = limits.dailyBudget.getExhaustedReason(row.userId);
    if (exhausted !== undefined) throw new PlatformError("BudgetReached", exhausted);
    const { model: name, ...rest } = llm ? agents.resolveModel(row.userId, llm) : agents.model(row);
    const asked = maskModel(openModel({ model: name ?? "", ...rest }), masks.forConversation(row));
    // The recording omits the history, which is in the log.
    const partial = request.messages.length > 1;
    const call = { id: row.id, usageId, partial };
    const model = recordSideCalls({ events: store.events, scheduler }, call, asked);
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]);
    const response = await model.complete({ ...request, signal });
    await runner.addUsage(row.id, usageId, model.name, response);
    return response.text.trim();
  }
}
