import { setTimeout as sleep } from "node:timers/promises";
import type { CallFailure } from "./failure.ts";

/**
 * Waits between attempts in milliseconds: five attempts, exponential from 8 to 64 s
 * (agent-behaviour.md section 3).
 */
export const defaultRetryDelaysMs: readonly number[] = [8_000, 16_000, 32_000, 64_000];

/** Maximum wait that a provider may ask for; beyond it the user gets the provider's message. */
const maxRetryAfterMs = 120_000;

/** An unreachable address has no rate limit: a quarter of the usual wait is enough. */
const unreachableShare = 1 / 4;

/** Attempts at an unreachable address that has never answered. */
const maxUnknownAttempts = 3;

/**
 * Factor of the waits for an endpoint that has answered before: ten minutes instead of about two.
 */
const knownEndpointFactor = 5;

/**
 * Milliseconds until the next attempt; undefined when there is none. `attempt` counts from 1.
 * `knownForMs`: how long an endpoint that has answered before has been failing.
 */
export function nextDelayMs(
  failure: CallFailure,
  attempt: number,
  delaysMs: readonly number[],
  knownForMs?: number,
): number | undefined {
  const total = delaysMs.reduce((sum, delay) => sum + delay, 0);
  const isAway =
    failure.away === true && knownForMs !== undefined && knownForMs < knownEndpointFactor * total;
  const usual = delaysMs[attempt - 1] ?? (isAway ? delaysMs.at(-1) : undefined);
  if (!failure.retryable || usual === undefined) return undefined;
  if (failure.unreachable) {
    // An address that never answered is probably wrong, and somebody waits for the reason.
    if (knownForMs === undefined && attempt >= maxUnknownAttempts) return undefined;
    return usual * unreachableShare;
  }
  if (failure.retryAfterMs === undefined) return usual;
  return failure.retryAfterMs <= maxRetryAfterMs ? failure.retryAfterMs : undefined;
}

/** Waits, but not beyond an abort. */
export async function wait(milliseconds: number, signal: AbortSignal): Promise<void> {
  await sleep(milliseconds, undefined, { signal }).catch(() => {});
}
