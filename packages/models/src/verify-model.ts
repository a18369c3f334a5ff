import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Model, ModelConfig, OpenModel } from "./model.ts";

/** Time for the one short answer, ms. */
const timeoutMs = 20_000;

/** The problem of a model: an invalid configuration, or its provider's error. */
export interface ModelProblem {
  type: "configuration" | "model";
  message: string;
}

/**
 * Calls a model once. Undefined when it answers, or when the failure is temporary (rate limit,
 * silence) and says nothing about the configuration.
 */
export async function verifyModel(
  openModel: OpenModel,
  config: ModelConfig,
  signal?: AbortSignal,
): Promise<ModelProblem | undefined> {
  let model: Model;
  try {
    model = openModel(config);
  } catch (error) {
    return problem("configuration", error);
  }
  const passing = new AbortController();
  const signals = [AbortSignal.timeout(timeoutMs), passing.signal, ...(signal ? [signal] : [])];
  try {
    await model.complete({
      system: ["Answer with one word."],
      messages: [{ role: "user", content: [{ type: "text", text: "ping" }] }],
      tools: [],
      signal: AbortSignal.any(signals),
      onDelta: () => passing.abort(),
      onRetry: () => passing.abort(),
    });
    return undefined;
  } catch (error) {
    return signals.some(({ aborted }) => aborted) ? undefined : problem("model", error);
  }
}

function problem(type: ModelProblem["type"], error: unknown): ModelProblem {
  if (!(error instanceof PlatformError)) throw error;
  return { type, message: errorText(error).slice(0, 2_000) };
}
