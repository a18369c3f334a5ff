import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { TurnScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { Model, ModelRequest } from "../model.ts";
import { PromptDigester } from "./digest.ts";
import type { ModelCall } from "./model-call.ts";

/** Code of a call that was cut off. */
export const abortedCode = "Aborted";

export interface RecorderDeps {
  /** Number of the last record of the log that is known now. */
  seq(): number;
  /** Digest of the tools of the conversation's last call before. */
  lastTools: string | undefined;
  scheduler: TurnScheduler;
}

/**
 * Collects the calls of a run until its next records are appended, so that both are stored
 * together. The cost of a step does not depend on the length of the history, because unchanged
 * messages are not read again.
 */
export class CallRecorder {
  readonly #parts: RecorderDeps;
  readonly #digester = new PromptDigester();
  #calls: ModelCall[] = [];
  #lastTools: string | undefined;
  #first = true;

  constructor(parts: RecorderDeps) {
    this.#parts = parts;
    this.#lastTools = parts.lastTools;
  }

  /** The model whose prompts are the conversation's view. */
  agent(model: Model): Model {
    return this.#around(model, "agent", true);
  }

  /** A model that is asked with prompts of its own, such as the one that summarises. */
  sideCall(model: Model, usageId: string): Model {
    return this.#around(model, usageId, false);
  }

  /** The calls that ended since this was asked last. */
  take(): ModelCall[] {
    const calls = this.#calls;
    this.#calls = [];
    return calls;
  }

  #around(model: Model, usageId: string, ofView: boolean): Model {
    const complete = async (request: ModelRequest) => {
      const call = { usageId, model: model.name, atSeq: this.#parts.seq(), startedAt: Date.now() };
      const start = performance.now();
      const answer = model.complete({ ...request, usageId });
      const outcome = answer.then(
        (response) => ({ response }),
        (error) => ({ failure: failureOf(error, request.signal) }),
      );
      const latency = outcome.then(() => Math.round(performance.now() - start));
      // Digesting a long history takes some milliseconds, so it happens while the answer is
      // awaited.
      await this.#parts.scheduler.nextTurn("prompt digests");
      const prompt = this.#promptOf(request, ofView);
      this.#calls.push({ ...call, ...prompt, latency: await latency, ...(await outcome) });
      return answer;
    };
    return { name: model.name, contextWindow: model.contextWindow, complete };
  }

  #promptOf(
    { system, messages, tools }: ModelRequest,
    ofView: boolean,
  ): Pick<ModelCall, "first" | "digests" | "tools" | "prompt"> {
    if (!ofView) return { first: false, prompt: { system, messages, tools } };
    const digests = this.#digester.digest({ system, messages, tools });
    const first = this.#first;
    const hasNewTools = digests.tools !== this.#lastTools;
    this.#first = false;
    this.#lastTools = digests.tools;
    return { first, digests, ...(hasNewTools && { tools }) };
  }
}

function failureOf(error: unknown, signal: AbortSignal): NonNullable<ModelCall["failure"]> {
  if (signal.aborted) return { code: abortedCode, message: "" };
  return { code: error instanceof PlatformError ? error.code : "InternalError", message: errorText(error) };
}
