import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandbox } from "../sandbox.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxHandles } from "./handles.ts";
import type { SandboxOperations } from "./operations.ts";
import type { SandboxRegistry } from "./registry.ts";
import { type SandboxStarter, wakeWaitMs } from "./starter.ts";
import type { SandboxUse } from "./use.ts";

export interface SandboxWakingDeps {
  registry: SandboxRegistry;
  operations: Pick<SandboxOperations, "run">;
  starter: Pick<SandboxStarter, "start">;
  /** Serialises the operations on a sandbox. */
  mutex: KeyedMutex;
  use: Pick<SandboxUse, "allowGrace" | "note">;
  handles: Pick<SandboxHandles, "connect" | "open">;
}

/** Gives callers running sandboxes, and wakes those that rest. */
export class SandboxWaking {
  readonly #deps: SandboxWakingDeps;

  constructor(deps: SandboxWakingDeps) {
    this.#deps = deps;
  }

  /** See `Sandboxes.running`. */
  async running(id: string, beforeWake?: () => Promise<void>): Promise<Sandbox> {
    const { registry, mutex, use, starter, handles } = this.#deps;
    use.note(id);
    await mutex.idle(id);
    if (registry.isUnknown(id)) await registry.requireHere(id);
    if (beforeWake && registry.states.get(id)?.status === "PAUSED") await beforeWake();
    const isUsable = (row: SandboxRow) => row.prepared && registry.isRunning(row);
    let row = await registry.require(id);
    if (!isUsable(row)) {
      row = await mutex.run(id, async () => {
        if (registry.isUnknown(id)) await registry.requireHere(id);
        const row = await registry.require(id);
        if (isUsable(row)) return row;
        // Only its user resumes a sandbox that was stopped for a reason.
        if (row.status === "ERROR" || (row.status === "PAUSED" && row.statusDetail !== null))
          throw new PlatformError("SandboxHasFailed", { reason: row.statusDetail });
        await starter.start(row, undefined, wakeWaitMs);
        return registry.require(id);
      });
    }
    return handles.open(row, beforeWake);
  }

  /** See `Sandboxes.connect`. */
  async connect(id: string, port: number): Promise<Duplex> {
    return this.#deps.handles.connect(await this.running(id), port);
  }

  /** See `Sandboxes.resume`. */
  async resume(userId: string, id: string): Promise<void> {
    const { registry, operations, use, starter } = this.#deps;
    if (registry.isUnknown(id)) await registry.requireHere(id);
    registry.requireState(userId, id);
    use.note(id);
    await operations.run(userId, id, async (row) => {
      if (registry.isRunning(row)) return;
      if (row.status === "PAUSED" && row.statusDetail !== null) use.allowGrace(id);
      await starter.start(row);
    });
  }
}
