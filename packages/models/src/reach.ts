import { PlatformError } from "@sandpiper/core/errors";
import type { Model } from "./model.ts";

/** Time limit of the short call that confirms a failure, ms. */
const callMs = 20_000;

/**
 * Throws the error that the first call would get when a model's endpoint is missing or refuses the
 * key, so that nothing is prepared for that call. Makes a short call only to confirm such a
 * failure. Time-outs and failures that may be temporary are ignored.
 */
export async function checkReach(model: Model, signal: AbortSignal): Promise<void> {
  const look = (await model.look?.(signal)) ?? "fine";
  if (look === "fine") return;
  const passing = new AbortController();
  let reason: string | undefined;
  const late = AbortSignal.timeout(callMs);
  try {
    await model.complete({
      system: ["Answer with one word."],
      messages: [{ role: "user", content: [{ type: "text", text: "ping" }] }],
      tools: [],
      signal: AbortSignal.any([signal, late, passing.signal]),
      onDelta: () => passing.abort(),
      onRetry: (notice) => {
        reason = notice.reason;
        passing.abort();
      },
    });
  } catch (error) {
    signal.throwIfAborted();
    if (reason !== undefined && look === "unreachable")
      throw new PlatformError("ModelCallFailed", { model: model.name, detail: toDetail(reason, model.name) });
    if (!passing.signal.aborted && !late.aborted) throw error;
  }
}

/** The part of an error's sentence after `The model … failed`. */
function toDetail(reason: string, name: string): string {
  const begin = `The model ${name} failed`;
  return reason.startsWith(begin) ? reason.slice(begin.length) : `: ${reason}`;
}
