import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { SandboxDriver } from "../driver.ts";
import type { SandboxRow, SandboxStore } from "../sandbox-store.ts";
import type { SandboxProcesses } from "./processes.ts";
import type { SandboxRegistry } from "./registry.ts";
import type { SandboxStarter } from "./starter.ts";

export interface RunStoppedDeps {
  driver: Pick<SandboxDriver, "list" | "pause">;
  store: Pick<SandboxStore, "update">;
  registry: SandboxRegistry;
  processes: SandboxProcesses;
  starter: SandboxStarter;
  logger: Pick<Logger, "warn">;
}

/**
 * Runs work that may end the processes of a sandbox, and then starts a running sandbox again.
 * The caller holds the sandbox's mutex. Throws SandboxFailed for a sandbox that never ran.
 */
export async function runStopped<T>(
  { driver, store, registry, processes, starter, logger }: RunStoppedDeps,
  row: SandboxRow,
  work: () => Promise<T>,
): Promise<T> {
  const { id } = row;
  const state = registry.states.get(id)!;
  const { hasSlot } = state;
  if (row.status === "ERROR" || !row.prepared)
    throw new PlatformError("SandboxNeverRan", { id, reason: row.statusDetail });
  // A store on a full disk refuses this write, before any process is stopped.
  await store.update(id, { lastUsedAt: state.lastUsedAt });
  await processes.beforeStop(state);
  registry.requireOwned(state);
  try {
    return await work();
  } finally {
    const engineState = (await driver.list()).find((one) => one.id === id)?.state;
    if (engineState !== "running" && engineState !== "paused") {
      processes.markStopped(state);
      state.hasSlot = hasSlot;
    } else if (row.status === "PAUSED" && engineState === "running") await driver.pause(id);
    if (row.status === "RUNNING" && state.incarnation === undefined)
      await starter.start(row, "stopped").catch((error) => {
        logger.warn({ sandbox: id, reason: errorText(error) }, "sandbox restart failed");
      });
  }
}
