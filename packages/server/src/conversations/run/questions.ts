import { modelTools } from "@sandpiper/agent/tools/call";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import { textContent } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import type { Custody } from "../custody.ts";
import type { Histories } from "./histories.ts";
import type { SideCalls } from "./side-calls.ts";

/**
 * Maximum concurrent questions of one user, and those that run or wait: each sends the whole
 * history, and the limit of runs does not apply.
 */
const maxConcurrentQuestions = 4;
const maxWaitingQuestions = 100;

export interface QuestionsDeps {
  histories: Pick<Histories, "promptHistory">;
  sideCalls: Pick<SideCalls, "complete">;
  custody: Pick<Custody, "during">;
}

/** Questions of users to agents, which the log does not show. */
export class Questions {
  readonly #deps: QuestionsDeps;
  readonly #closing = new AbortController();
  readonly #slots = new KeyedSemaphore([maxConcurrentQuestions]);
  readonly #queue = new KeyedSemaphore([maxWaitingQuestions]);

  constructor(deps: QuestionsDeps) {
    this.#deps = deps;
  }

  /**
   * Asks a question after the whole history and returns the answer. Throws what the model call
   * throws, BudgetReached, TooManyRequests when too many questions wait, and SandboxMoved when
   * another node takes the conversation meanwhile.
   */
  ask(row: ConversationRow, question: string): Promise<string> {
    return this.#deps.custody.during(row.sandboxId, (moved) => this.#ask(row, question, moved));
  }

  async #ask(row: ConversationRow, question: string, moved: AbortSignal): Promise<string> {
    const { histories, sideCalls } = this.#deps;
    const leave = this.#queue.tryAcquire([row.userId]);
    if (!leave) throw new PlatformError("TooManyQuestions", { retryAfter: 1 });
    const signal = AbortSignal.any([this.#closing.signal, moved]);
    const release = await this.#slots.acquire([row.userId], signal);
    try {
      signal.throwIfAborted();
      const { system, messages, tools } = await histories.promptHistory(row);
      const asked = [...messages, { role: "user" as const, content: [textContent(question)] }];
      // Providers reject calls in the history of tools that the request does not list.
      const request = { system, messages: asked, tools: modelTools(tools), cacheKey: row.id };
      return await sideCalls.complete(row, "ask-agent", request);
    } finally {
      release?.();
      leave();
    }
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }
}
