import { isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

/** When sandboxes that nobody uses are paused, hibernated and deleted. 0 means never. */
export interface IdlePolicy {
  /** Time without use, ms. */
  pauseAfterMs: number;
  /** Time since the pause, ms. */
  hibernateAfterMs: number;
  /** Time without use, ms. */
  deleteAfterMs: number;
}

export type IdleStep = "pause" | "hibernate" | "delete";

/** What is due for a sandbox at a time. One in which work goes on is left alone, and one that is just being started. */
export function nextIdleStep(
  live: SandboxRuntimeState,
  policy: IdlePolicy,
  now: number,
): IdleStep | undefined {
  if (live.status === "STARTING" || isBusy(live)) return undefined;
  const unused = now - live.lastUsedAt;
  if (isDue(policy.deleteAfterMs, unused)) return "delete";
  if (live.status === "RUNNING" && isDue(policy.pauseAfterMs, unused)) return "pause";
  const processes = live.status === "PAUSED" && !live.stopped;
  if (processes && isDue(policy.hibernateAfterMs, now - live.pausedAt)) return "hibernate";
  return undefined;
}

function isDue(afterMs: number, passedMs: number): boolean {
  return afterMs > 0 && passedMs >= afterMs;
}
