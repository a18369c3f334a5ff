import { setTimeout as sleep } from "node:timers/promises";
import type { Failure } from "./failure.ts";

/** Waits between attempts, milliseconds: five attempts, exponential from 8 to 64 s (agent-behaviour.md section 3). */
export const defaultRetryDelaysMs: readonly number[] = [8_000, 16_000, 32_000, 64_000];

/** A provider that asks for more than this is not waited for: the user is better served by its message. */
const longestRetryAfterMs = 120_000;

/** An address where nobody is needs no patience with its limits: a quarter of the usual wait shows whether it is back. */
const unreachableShare = 1 / 4;

/** How much longer than all usual waits an endpoint is waited for that has answered before: ten minutes where eight to 64 seconds are usual. */
const patience = 5;

/**
 * Milliseconds to wait before the next attempt, or undefined when there should be none. `attempt` counts from 1. `knownForMs` is given for an endpoint that has
 * answered before: for how long it has failed now.
 */
export function nextDelay(
  failure: Failure,
  attempt: number,
  delaysMs: readonly number[],
  knownForMs?: number,
): number | undefined {
  const total = delaysMs.reduce((sum, delay) => sum + delay, 0);
  const isAway = failure.away === true && knownForMs !== undefined && knownForMs < patience * total;
  const usual = delaysMs[attempt - 1] ?? (isAway ? delaysMs.at(-1) : undefined);
  if (!failure.retryable || usual === undefined) return undefined;
  if (failure.unreachable) return usual * unreachableShare;
  if (failure.retryAfterMs === undefined) return usual;
  return failure.retryAfterMs <= longestRetryAfterMs ? failure.retryAfterMs : undefined;
}

/** Waits, but not beyond an abort. */
export async function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => {});
}
