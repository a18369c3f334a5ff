import { PlatformError } from "@sandpiper/core/errors";
import type { Model } from "./model.ts";

/** Time for the one short answer that confirms a suspicion, ms. */
const callMs = 20_000;

/**
 * Throws the error of the first call where a model's endpoint is not there or refuses the key:
 * before anything is prepared for it. A short call is made only to confirm a suspicion. Silence and
 * other failures that may pass say nothing.
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
