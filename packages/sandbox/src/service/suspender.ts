import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { SandboxDriver } from "../driver.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxProcesses } from "./processes.ts";
import type { SandboxRegistry } from "./registry.ts";
import { cutConnections, isBusy, type SandboxRuntimeState } from "./runtime-state.ts";

export interface SandboxSuspenderDeps {
  registry: SandboxRegistry;
  processes: SandboxProcesses;
  driver: Pick<SandboxDriver, "pause" | "resume">;
  mutex: KeyedMutex;
  logger: Pick<Logger, "warn">;
  /** Running sandboxes of a user; 0: no limit. */
  maxPerUser: number;
}

/** Pauses and stops sandboxes. Callers of `pause` and `stop` hold the mutex of the sandbox. */
export class SandboxSuspender {
  readonly #deps: SandboxSuspenderDeps;

  constructor(deps: SandboxSuspenderDeps) {
    this.#deps = deps;
  }

  async pause(row: SandboxRow): Promise<void> {
    const { registry, processes, driver } = this.#deps;
    const { id } = row;
    const state = registry.states.get(id)!;
    if (row.status === "PAUSED") return;
    if (row.status === "ERROR") throw new PlatformError("SandboxHasFailed", { reason: row.statusDetail });
    await driver.pause(id).catch((error) => {
      // A sandbox without processes counts as paused: a resume starts it on its files.
      if (error?.code !== "SandboxNotRunning") throw error;
      processes.markStopped(state);
    });
    const change = { status: "PAUSED", statusDetail: null, lastUsedAt: state.lastUsedAt } as const;
    await registry.change(id, change).catch(async (error) => {
      // A frozen sandbox that is recorded as running would never be resumed.
      await driver.resume(id).catch(() => {});
      throw error;
    });
    state.storedUseAt = state.lastUsedAt;
    state.pausedAt = registry.now();
    state.hasSlot = false;
    cutConnections(state);
  }

  /** Stops a running sandbox at once; only its user can start it again. */
  async stop(id: string, reason: string): Promise<void> {
    const { registry, processes, logger } = this.#deps;
    const row = registry.require(id);
    if (row.status !== "RUNNING") return;
    await registry.change(id, { status: "PAUSED", statusDetail: reason });
    await processes.stop(registry.states.get(id)!).catch(async (error) => {
      // The reaper looks only at running sandboxes.
      await registry.change(id, { status: "RUNNING", statusDetail: null });
      throw error;
    });
    logger.warn({ sandbox: id, reason }, "sandbox stopped");
  }

  /**
   * Takes a slot for a sandbox and pauses others of its user that exceed the limit. Never rejects.
   */
  async evictFor(state: SandboxRuntimeState): Promise<void> {
    const { registry, mutex, maxPerUser } = this.#deps;
    const others = chooseEvictions(registry.states.values(), state, maxPerUser);
    state.hasSlot = true;
    for (const other of others) other.hasSlot = false;
    const pauses = others.map(async ({ id }) => mutex.run(id, () => this.pause(registry.require(id))));
    for (const [index, { status }] of (await Promise.allSettled(pauses)).entries())
      if (status === "rejected") others[index]!.hasSlot = others[index]!.status === "RUNNING";
  }
}

/**
 * The sandboxes of a user to pause so that `starting` and the others are at most `max` (0: no
 * limit), in the order of the pauses: idle ones first, then the least recently used (app-server.md
 * section 4, reuse rule 4). Starting sandboxes count but are never chosen, so no start waits for
 * another start.
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
