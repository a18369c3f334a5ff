import { PlatformError } from "@sandpiper/core/errors";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { ModelConfig, ModelRequest } from "@sandpiper/models/model";
import { recordSideCalls } from "@sandpiper/models/recording/side-calls";
import type { GivenLlm } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";
import type { DailyBudget } from "../../users/daily-budget.ts";
import type { AgentConfigResolver } from "../agent/agent-config.ts";
import type { ConversationModels } from "../agent/conversation-models.ts";
import type { Custody } from "../custody.ts";
import type { ConversationUsage } from "./conversation-usage.ts";

/** Time for one side call, ms. */
const timeoutMs = 300_000;

export interface SideCallsDeps {
  store: Pick<Store, "events">;
  scheduler: TurnScheduler;
  agents: Pick<AgentConfigResolver, "model" | "resolveModel">;
  models: Pick<ConversationModels, "open">;
  usage: Pick<ConversationUsage, "add">;
  limits: {
    dailyBudget: Pick<DailyBudget, "getExhaustedReason">;
    custody: Pick<Custody, "during">;
  };
}

/** A request without a signal is cancelled at shutdown and after some minutes. */
type SideRequest = Omit<ModelRequest, "signal"> & { signal?: AbortSignal };

/** Model calls that append no event; their cost has its own usage id. */
export class SideCalls {
  readonly #deps: SideCallsDeps;
  readonly #closing = new AbortController();

  constructor(deps: SideCallsDeps) {
    this.#deps = deps;
  }

  /**
   * Asks without the history, by `llm` or the conversation's model. Throws what the model call
   * throws, BudgetReached, and SandboxMoved when another node takes the conversation meanwhile.
   */
  async ask(
    row: ConversationRow,
    usageId: string,
    system: string,
    question: string,
    llm?: GivenLlm,
  ): Promise<string> {
    const messages = [{ role: "user" as const, content: [textContent(question)] }];
    const config = llm && (await this.#deps.agents.resolveModel(row.userId, llm));
    return this.complete(row, usageId, { system: [system], messages, tools: [] }, config);
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }

  /** Calls a model, by default the conversation's. Throws as `ask`. */
  complete(
    row: ConversationRow,
    usageId: string,
    request: SideRequest,
    config?: Partial<ModelConfig>,
  ): Promise<string> {
    return this.#deps.limits.custody.during(row.sandboxId, (moved) => {
      const signal = request.signal ? AbortSignal.any([moved, request.signal]) : moved;
      return this.#complete(row, usageId, { ...request, signal }, config);
    });
  }

  async #complete(
    row: ConversationRow,
    usageId: string,
    request: Omit<ModelRequest, "signal"> & { signal: AbortSignal },
    config: Partial<ModelConfig> | undefined,
  ): Promise<string> {
    const { agents, models, usage, limits, store, scheduler } = this.#deps;
    const exhausted = await limits.dailyBudget.getExhaustedReason(row.userId);
    if (exhausted !== undefined) throw new PlatformError("BudgetReached", exhausted);
    const asked = await models.open(row, config ?? (await agents.model(row)));
    // The recording omits the history, which is in the log.
    const partial = request.messages.length > 1;
    const call = { id: row.id, usageId, partial };
    const model = recordSideCalls({ events: store.events, scheduler }, call, asked);
    const ends = [this.#closing.signal, AbortSignal.timeout(timeoutMs), request.signal];
    const signal = AbortSignal.any(ends);
    const response = await model.complete({ ...request, signal });
    await usage.add(row.id, usageId, model.name, response);
    return response.text.trim();
  }
}
