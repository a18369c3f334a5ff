import { errorText, PlatformError } from "../errors.ts";
import type { Model, ModelRequest } from "../models/model.ts";
import type { ModelCall } from "../store/model-calls.ts";
import { PromptDigester } from "./digest.ts";

/** Code of a call that was cut off. */
export const abortedCall = "Aborted";

export interface RecorderParts {
  /** Number of the last record of the log that is known now. */
  seq(): number;
  /** Digest of the tools of the conversation's last call before. */
  lastTools: string | undefined;
}

/**
 * Keeps the calls of a run until its next records go into the log, so that a call and what came of it are stored together or not at all. A step costs the same
 * however long the history is: what is the same as at the call before is not read again.
 */
export class CallRecorder {
  readonly #parts: RecorderParts;
  readonly #digester = new PromptDigester();
  #calls: ModelCall[] = [];
  #lastTools: string | undefined;
  #first = true;

  constructor(parts: RecorderParts) {
    this.#parts = parts;
    this.#lastTools = parts.lastTools;
  }

  /** The model whose prompts are the conversation's view. */
  agent(model: Model): Model {
    return this.#around(model, "agent", true);
  }

  /** A model that is asked with prompts of its own, such as the one that summarises. */
  beside(model: Model, usageId: string): Model {
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
      const begun = this.#begin(model.name, usageId, request, ofView);
      const start = performance.now();
      const end = (outcome: Pick<ModelCall, "response" | "failure">) =>
        this.#calls.push({ ...begun, latency: Math.round(performance.now() - start), ...outcome });
      try {
        const response = await model.complete({ ...request, usageId });
        end({ response });
        return response;
      } catch (error) {
        end({ failure: failureOf(error, request.signal) });
        throw error;
      }
    };
    return { name: model.name, contextWindow: model.contextWindow, complete };
  }

  #begin(model: string, usageId: string, { system, messages, tools }: ModelRequest, ofView: boolean): Omit<ModelCall, "latency"> {
    const call = { usageId, model, atSeq: this.#parts.seq(), startedAt: Date.now() };
    if (!ofView) return { ...call, first: false, prompt: { system, messages, tools } };
    const digests = this.#digester.of({ system, messages, tools });
    const first = this.#first;
    const hasNewTools = digests.tools !== this.#lastTools;
    this.#first = false;
    this.#lastTools = digests.tools;
    return { ...call, first, digests, ...(hasNewTools && { tools }) };
  }
}

function failureOf(error: unknown, signal: AbortSignal): NonNullable<ModelCall["failure"]> {
  if (signal.aborted) return { code: abortedCall, message: "" };
  return { code: error instanceof PlatformError ? error.code : "InternalError", message: errorText(error) };
}
