import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxDriver } from "../driver.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxProcesses } from "./processes.ts";
import type { SandboxRegistry } from "./registry.ts";
import { cutConnections } from "./runtime-state.ts";

export interface SandboxSuspenderDeps {
  registry: SandboxRegistry;
  processes: SandboxProcesses;
  driver: Pick<SandboxDriver, "pause" | "resume">;
  logger: Pick<Logger, "warn">;
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
    state.pauseSteps += 1;
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
    state.pauseSteps += 1;
    state.storedUseAt = state.lastUsedAt;
    state.pausedAt = registry.now();
    state.hasSlot = false;
    cutConnections(state);
  }

  /** Stops a running sandbox at once; only its user can start it again. */
  async stop(id: string, reason: string): Promise<void> {
    const { registry, processes, logger } = this.#deps;
    const row = await registry.require(id);
    if (row.status !== "RUNNING") return;
    await registry.change(id, { status: "PAUSED", statusDetail: reason });
    await processes.stop(registry.states.get(id)!).catch(async (error) => {
      // The reaper looks only at running sandboxes.
      await registry.change(id, { status: "RUNNING", statusDetail: null });
      throw error;
    });
    logger.warn({ sandbox: id, reason }, "sandbox stopped");
  }
}
