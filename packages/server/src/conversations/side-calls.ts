import type { Content } from "@sandpiper/wire";
import { textContent } from "@sandpiper/wire";
import { modelTools } from "../agent/tools/call.ts";
import { PlatformError } from "../errors.ts";
import type { ModelRequest, OpenModel } from "../models/model.ts";
import type { ConversationRow } from "../store/store.ts";
import type { Agents } from "./agents.ts";
import type { RunLimits, Runner } from "./runner.ts";

/** Time for a call beside the run, ms. */
const timeoutMs = 300_000;

export interface SideCallDependencies {
  agents: Pick<Agents, "model">;
  runner: Pick<Runner, "history" | "addUsage">;
  openModel: OpenModel;
  limits: Pick<RunLimits, "dailyBudget">;
}

/** Calls of a conversation's model that leave no event: they count in its metrics under a usage id of their own. */
export class SideCalls {
  readonly #deps: SideCallDependencies;
  readonly #closing = new AbortController();

  constructor(deps: SideCallDependencies) {
    this.#deps = deps;
  }

  /** Asks with the whole history before the question, and gives the text of the answer. Throws what the model call throws, and BudgetReached. */
  async ask(row: ConversationRow, usageId: string, question: Content[]): Promise<string> {
    const { runner } = this.#deps;
    const { system, messages, tools } = runner.history(row);
    // Providers refuse calls in the history of tools that are not told.
    return this.#complete(row, usageId, {
      system,
      messages: [...messages, { role: "user", content: question }],
      tools: modelTools(tools),
    });
  }

  /** Asks without the history. Throws as `ask`. */
  async askAlone(row: ConversationRow, usageId: string, system: string, question: string): Promise<string> {
    return this.#complete(row, usageId, {
      system: [system],
      messages: [{ role: "user", content: [textContent(question)] }],
      tools: [],
    });
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }

  async #complete(row: ConversationRow, usageId: string, request: Omit<ModelRequest, "signal">): Promise<string> {
    const { agents, openModel, runner, limits } = this.#deps;
    const exhausted = limits.dailyBudget.exhausted(row.userId);
    if (exhausted !== undefined) throw new PlatformError("BudgetReached", exhausted);
    const { model: name, ...rest } = agents.model(row);
    const model = openModel({ model: name ?? "", ...rest });
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(timeoutMs)]);
    const response = await model.complete({ ...request, signal });
    await runner.addUsage(row.id, usageId, model.name, response);
    return response.text.trim();
  }
}
