import { isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

/** When idle sandboxes are paused, hibernated and deleted; 0 means never. */
export interface IdlePolicy {
  /** Time without use, ms. */
  pauseAfterMs: number;
  /** Time since the pause, ms. */
  hibernateAfterMs: number;
  /** Time without use, ms. */
  deleteAfterMs: number;
}

export type IdleStep = "pause" | "hibernate" | "delete";

/** The step that is due at `now`; none for a busy or starting sandbox. */
export function nextIdleStep(
  state: SandboxRuntimeState,
  policy: IdlePolicy,
  now: number,
): IdleStep | undefined {
  if (state.status === "STARTING" || isBusy(state)) return undefined;
  const unusedMs = now - state.lastUsedAt;
  if (isDue(policy.deleteAfterMs, unusedMs)) return "delete";
  if (state.status === "RUNNING" && isDue(policy.pauseAfterMs, unusedMs)) return "pause";
  const isFrozen = state.status === "PAUSED" && !state.stopped;
  if (isFrozen && isDue(policy.hibernateAfterMs, now - state.pausedAt)) return "hibernate";
  return undefined;
}

function isDue(afterMs: number, passedMs: number): boolean {
  return afterMs > 0 && passedMs >= afterMs;
}
