import { isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

/**
 * The sandboxes of a user that have to be paused so that `starting` and the others are at most `max` (0: no limit), in the order of the
 * pauses: those without work first, the longest unused before the others (app-server.md section 4, reuse rule 4). Sandboxes that are
 * being started count, but are not among the answers: nothing ever waits for a start that waits for room itself.
 */
export function chooseEvictions(
  all: Iterable<SandboxRuntimeState>,
  starting: SandboxRuntimeState,
  max: number,
): SandboxRuntimeState[] {
  if (max <= 0) return [];
  const others = [...all].filter((one) => one.userId === starting.userId && one !== starting && one.hasSlot);
  const excess = others.length + 1 - max;
  if (excess <= 0) return [];
  return others
    .filter(({ status, incarnation }) => status === "RUNNING" && incarnation !== undefined)
    .sort((a, b) => Number(isBusy(a)) - Number(isBusy(b)) || a.lastUsedAt - b.lastUsedAt)
    .slice(0, excess);
}
