import { type ErrorCode, PlatformError } from "@sandpiper/core/errors";
import type { Model, ModelRequest, ModelResponse } from "@sandpiper/models/model";
import { abortedCode } from "@sandpiper/models/recording/recorder";
import type { RecordedCall, RecordedTool } from "@sandpiper/wire";
import type { Comparison } from "./comparison.ts";
import { belongsToRun } from "./inputs.ts";
import type { Recording } from "./read.ts";

export interface ReplayModelDeps {
  recording: Recording;
  comparison: Comparison;
  /** Called when a call begins; the answer waits for the promise. */
  onCall(usageId: string, index: number): Promise<void>;
}

/**
 * Answers from a recording: calls of a usage id in order, whatever they ask. Their prompts are
 * compared with the recorded ones.
 */
export class ReplayModel {
  readonly #deps: ReplayModelDeps;
  readonly #calls = new Map<string, RecordedCall[]>();
  readonly #begun = new Map<string, number>();
  /** A call had no recorded answer. */
  isExhausted = false;

  constructor(parts: ReplayModelDeps) {
    this.#deps = parts;
    for (const call of parts.recording.calls.filter(({ usage_id }) => belongsToRun(usage_id)))
      this.#calls.set(call.usage_id, [...(this.#calls.get(call.usage_id) ?? []), call]);
  }

  /** Number of calls of a usage id so far. */
  begun(usageId: string): number {
    return this.#begun.get(usageId) ?? 0;
  }

  /** The tools of the agent's next call. */
  get nextTools(): readonly RecordedTool[] {
    const call = this.#calls.get("agent")?.[this.begun("agent")];
    return call ? this.#deps.recording.tools[call.tools]! : [];
  }

  /** Numbers of recorded and replayed calls. */
  get counts(): { usageId: string; recorded: number; replayed: number }[] {
    return [...this.#calls].map(([usageId, calls]) => ({
      usageId,
      recorded: calls.length,
      replayed: Math.min(this.begun(usageId), calls.length),
    }));
  }

  open(): Model {
    const calls = this.#deps.recording.calls;
    const contextWindow = calls.find(({ response }) => response)?.response?.usage.context_window ?? 0;
    return {
      name: calls[0]?.model ?? "replay",
      contextWindow,
      complete: (request) => this.#complete(request),
    };
  }

  async #complete(request: ModelRequest): Promise<ModelResponse> {
    const { usageId = "" } = request;
    const index = this.begun(usageId);
    this.#begun.set(usageId, index + 1);
    const call = this.#calls.get(usageId)?.[index];
    const { comparison, onCall } = this.#deps;
    const at = `${usageId} call ${index + 1}`;
    if (!call) {
      this.isExhausted = true;
      comparison.add({ kind: "additional call", at, what: "the recording has no further answer" });
      throw new PlatformError("ModelFailed", "The recording has no further answer.");
    }
    comparison.comparePrompt(call, at, request);
    await Promise.race([onCall(usageId, index), waitForAbort(request.signal)]);
    request.signal.throwIfAborted();
    const { response, failure } = call;
    if (response) return response;
    if (failure?.code === abortedCode) await waitForAbort(request.signal);
    request.signal.throwIfAborted();
    const error = new PlatformError(failure?.code as ErrorCode, failure?.message ?? "");
    throw error.status ? error : new PlatformError("ModelFailed", error.message);
  }
}

function waitForAbort(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
}
