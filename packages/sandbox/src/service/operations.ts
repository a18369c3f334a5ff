import { PlatformError } from "@sandpiper/core/errors";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxProcesses } from "./processes.ts";
import type { SandboxRegistry } from "./registry.ts";
import { isBusy } from "./runtime-state.ts";
import type { SandboxSlots } from "./slots.ts";
import { type SandboxStarter, wakeWaitMs } from "./starter.ts";
import type { SandboxSuspender } from "./suspender.ts";

export interface SandboxOperationsDeps {
  registry: SandboxRegistry;
  processes: Pick<SandboxProcesses, "hibernate" | "remove">;
  suspender: SandboxSuspender;
  starter: Pick<SandboxStarter, "close" | "start">;
  slots: Pick<SandboxSlots, "whileNotQueued">;
  /** Serialises the operations on a sandbox. */
  mutex: KeyedMutex;
}

/** The operations that stop and remove sandboxes, of their users and of the reaper. */
export class SandboxOperations {
  readonly #deps: SandboxOperationsDeps;

  constructor(deps: SandboxOperationsDeps) {
    this.#deps = deps;
  }

  /**
   * Runs an operation of the sandbox's user in its turn. Throws SandboxNotFound, and
   * SandboxNotRunning when its turn would come after a wait for a slot.
   */
  async run<T>(userId: string, id: string, operation: (row: SandboxRow) => Promise<T>): Promise<T> {
    const { registry, slots, mutex } = this.#deps;
    if (registry.isUnknown(id)) await registry.requireHere(id);
    const state = registry.requireState(userId, id);
    return slots.whileNotQueued(state, (isRefused) =>
      mutex.run(id, async () => {
        const row = await registry.require(id);
        if (isRefused()) throw new PlatformError("UnknownSandbox", { id });
        return operation(row);
      }),
    );
  }

  /** See `Sandboxes.pause`. */
  pause(userId: string, id: string): Promise<void> {
    return this.run(userId, id, (row) => this.#deps.suspender.pause(row));
  }

  /** See `Sandboxes.remove`. */
  async remove(userId: string, id: string, removeRecord?: () => Promise<unknown>): Promise<void> {
    const { registry, mutex } = this.#deps;
    // A sandbox that is being created has no record yet, and its creation must go on.
    await registry.require(id);
    if (registry.isUnknown(id)) await registry.requireHere(id);
    const state = registry.requireState(userId, id);
    state.removal.abort(new PlatformError("SandboxDeleted", { id }));
    await mutex
      .run(id, async () => {
        const row = await registry.get(id);
        if (row) await this.#remove(row, removeRecord);
      })
      .catch((error) => {
        // The record could not be removed, so the sandbox stays usable.
        state.removal = new AbortController();
        throw error;
      });
  }

  /**
   * Pauses a sandbox that is still idle, and resumes it when a command arrived while its processes
   * were frozen.
   */
  pauseIdle(id: string, isDue: () => boolean): Promise<void> {
    const { registry, suspender, starter } = this.#deps;
    return this.#whenDue(id, isDue, async (row) => {
      await suspender.pause(row);
      if (isBusy(registry.states.get(id)!))
        await starter.start(await registry.require(id), undefined, wakeWaitMs);
    });
  }

  /** Pauses a sandbox, unless somebody works in it, so that another one gets its slot. */
  yieldSlot(id: string): Promise<void> {
    const { registry, suspender } = this.#deps;
    const isIdle = () => {
      const state = registry.states.get(id);
      return state !== undefined && !isBusy(state);
    };
    return this.#whenDue(id, isIdle, (row) => suspender.pause(row));
  }

  hibernateIdle(id: string, isDue: () => boolean): Promise<void> {
    const { registry, processes } = this.#deps;
    return this.#whenDue(id, isDue, () => processes.hibernate(registry.states.get(id)!));
  }

  removeIdle(id: string, isDue: () => boolean): Promise<void> {
    return this.#whenDue(id, isDue, (row) => this.#remove(row));
  }

  /** Stops a sandbox for a reason that its user sees. */
  stop(id: string, reason: string): Promise<void> {
    const { mutex, suspender } = this.#deps;
    return mutex.run(id, () => suspender.stop(id, reason));
  }

  /** Removes from the engine what has no record. */
  discard(id: string): Promise<void> {
    return this.#deps.processes.remove(id);
  }

  /** Aborts all starts; the next server continues them. */
  abortStarts(): void {
    this.#deps.starter.close();
  }

  /** Waits for all operations, and stores when the sandboxes were used. */
  async settle(): Promise<void> {
    const { mutex, registry } = this.#deps;
    await mutex.allIdle();
    await Promise.allSettled([...registry.states.values()].map((state) => registry.storeUse(state)));
  }

  async #whenDue(id: string, isDue: () => boolean, work: (row: SandboxRow) => Promise<void>): Promise<void> {
    const { mutex, registry } = this.#deps;
    await mutex.run(id, async () => {
      const row = await registry.get(id);
      // `work` begins right after `isDue`, without an await in between.
      if (row && isDue()) await work(row);
    });
  }

  async #remove(row: SandboxRow, removeRecord?: () => Promise<unknown>): Promise<void> {
    const { registry, processes } = this.#deps;
    const { id } = row;
    // The record goes first: what a crash leaves in the engine is an orphan, which is reaped.
    await registry.remove(id, removeRecord);
    await processes.remove(id);
    await registry.forget(row);
  }
}
