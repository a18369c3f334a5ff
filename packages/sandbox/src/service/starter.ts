import { setTimeout as sleep } from "node:timers/promises";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { DriverSandbox, PreparedSpec, SandboxSpec } from "../driver.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import type { SandboxProcesses } from "./processes.ts";
import type { SandboxRegistry } from "./registry.ts";
import type { SandboxRuntimeState } from "./runtime-state.ts";
import type { SandboxSlots } from "./slots.ts";

/** How long a use of a paused sandbox waits until its user may run another one, ms. */
export const wakeWaitMs = 60_000;

export interface SandboxStarterDeps {
  registry: SandboxRegistry;
  processes: SandboxProcesses;
  slots: SandboxSlots;
  mutex: KeyedMutex;
  getSpec: (row: SandboxRow) => SandboxSpec;
  logger: Pick<Logger, "warn">;
}

type EngineState = DriverSandbox["state"];

/** Delay until a start whose outcome could not be stored is retried, ms. */
const retryMs = 5_000;

/** Delay between two attempts to attach a network whose port the earlier owner still has, ms. */
const attachRetryMs = 500;
/** Maximum number of attempts to attach a network. */
const maxAttaches = 120;

/** Starts sandboxes from any state. Callers of `start` hold the sandbox's mutex. */
export class SandboxStarter {
  readonly #deps: SandboxStarterDeps;
  readonly #closing = new AbortController();

  constructor(deps: SandboxStarterDeps) {
    this.#deps = deps;
  }

  startInBackground(id: string, engineState?: EngineState, after?: Promise<void>): void {
    const { registry, mutex, logger } = this.#deps;
    const isPending = () => !this.#closing.signal.aborted && registry.states.get(id)?.status === "STARTING";
    mutex
      .run(id, async () => {
        await after;
        const row = await registry.get(id);
        if (row) await this.start(row, engineState);
      })
      .catch((error) => {
        logger.warn({ sandbox: id, reason: errorText(error) }, "sandbox start failed");
        // A full disk cannot store the failure either; without a retry readers of the record wait
        // forever.
        const retry = () => isPending() && this.startInBackground(id);
        if (isPending()) setTimeout(retry, retryMs).unref();
      });
  }

  /**
   * Makes a sandbox run. A STARTING sandbox waits until its user may run another one, others up to
   * `waitMs`. Failures become the record's ERROR, except that there was no slot in time, and those
   * that say nothing about the sandbox.
   */
  async start(row: SandboxRow, engineState?: EngineState, waitMs = 0): Promise<void> {
    const { registry, processes } = this.#deps;
    const { id } = row;
    const state = registry.states.get(id)!;
    const hasRun = row.prepared && row.status !== "STARTING";
    try {
      const prepared = row.prepared ? (row.spec as PreparedSpec) : await this.#prepare(row, state);
      await this.#takeSlot(state, hasRun ? waitMs : Number.POSITIVE_INFINITY);
      await this.#restoreFiles(row, prepared, state);
      const requireOwned = () => registry.requireOwned(state);
      const { incarnation, spec } = await processes.start(state, row, prepared, {
        engineState,
        requireOwned,
      });
      await registry.change(id, {
        ...{ status: "RUNNING", statusDetail: null, incarnation, snapshotId: null },
        ...(spec !== row.spec && { spec, prepared: true }),
        lastUsedAt: state.lastUsedAt,
      });
      await registry.releaseSnapshot(row);
      state.incarnation = incarnation;
      state.diskLimit = spec.limits.diskBytes;
      state.storedUseAt = state.lastUsedAt;
    } catch (error) {
      const isRefused = hasRun && !state.hasSlot;
      state.hasSlot = false;
      // A start cut off by the shutdown, a deletion or another owner leaves the record as it is.
      this.#closing.signal.throwIfAborted();
      registry.requireOwned(state);
      // Without a slot it stays what it was, and a later use tries again.
      if (isRefused || !concernsSandbox(error)) throw error;
      if (row.snapshotId === null && error instanceof PlatformError && error.code === "BlobsUnavailable") {
        await registry.change(id, { status: "PAUSED", statusDetail: null });
        throw error;
      }
      const known = error instanceof PlatformError;
      const failure = known
        ? error
        : new PlatformError("SandboxStartFailed", { reason: errorText(error) }, { cause: error });
      await registry.change(id, { status: "ERROR", statusDetail: failure.message });
      throw failure;
    }
  }

  /** Brings one record into line with the engine after a restart of the server. */
  async adopt(row: SandboxRow, engineState: EngineState): Promise<void> {
    const { registry, processes, logger } = this.#deps;
    const { id } = row;
    const state = registry.states.get(id)!;
    if (row.status === "STARTING") return this.startInBackground(id, engineState);
    state.stopped = engineState === "stopped";
    if (engineState === "stopped") return;
    const running = engineState === "running";
    state.hasSlot = running;
    // The time while the server was down does not count as idle.
    if (running) state.lastUsedAt = registry.now();
    if (row.status === "RUNNING" && !running) await registry.change(id, { status: "PAUSED" });
    else if (row.status === "PAUSED" && running)
      await registry.change(id, { status: "RUNNING", statusDetail: null });
    if (!row.prepared) return;
    const spec = row.spec as PreparedSpec;
    state.diskLimit = spec.limits.diskBytes;
    // A paused sandbox is attached when it resumes; after a failure the next use attaches it.
    if (!running) return;
    try {
      await processes.attach(row, spec);
      state.incarnation = row.incarnation;
    } catch (error) {
      logger.warn({ sandbox: id, reason: errorText(error) }, "sandbox network could not be reattached");
      // The earlier owner stands still and has the port. The processes of the sandbox go on.
      if (!registry.isShared || !isPortTaken(error)) return;
      state.incarnation = row.incarnation;
      void this.#attachLater(state, row, spec);
    }
  }

  /**
   * Attaches the network once its port is free. After `maxAttaches` attempts the next use starts
   * the sandbox anew.
   */
  async #attachLater(state: SandboxRuntimeState, row: SandboxRow, spec: PreparedSpec): Promise<void> {
    const { registry, processes, logger } = this.#deps;
    const isCurrent = () =>
      registry.states.get(row.id) === state &&
      state.incarnation === row.incarnation &&
      !this.#closing.signal.aborted;
    for (let attempt = 0; attempt < maxAttaches; attempt++) {
      await sleep(attachRetryMs, undefined, { ref: false });
      if (!isCurrent()) return;
      try {
        await processes.attach(row, spec);
        return logger.warn({ sandbox: row.id }, "sandbox network reattached");
      } catch (error) {
        if (!isPortTaken(error)) break;
      }
    }
    if (isCurrent()) state.incarnation = undefined;
  }

  /** Resolves when the pending operations on a sandbox have ended. */
  settled(id: string): Promise<void> {
    return this.#deps.mutex.idle(id);
  }

  /** Aborts all starts; the next server continues them. */
  close(): void {
    this.#deps.slots.close();
    this.#closing.abort(new PlatformError("SandboxStartInterrupted"));
  }

  async #takeSlot(state: SandboxRuntimeState, waitMs: number): Promise<void> {
    const { registry, slots } = this.#deps;
    await slots.take(state, {
      signal: this.#ending(state),
      waitMs,
      onWait: (position, max) => {
        const statusDetail = `Waiting in position ${position}: all ${max} sandboxes that you may run at a time are in use.`;
        if (state.status === "STARTING") registry.change(state.id, { statusDetail }).catch(() => {});
      },
    });
  }

  /** Aborted by the deletion of the sandbox and by the end of the server. */
  #ending(state: SandboxRuntimeState): AbortSignal {
    return AbortSignal.any([state.removal.signal, this.#closing.signal]);
  }

  /** Restores the files of a sandbox from the shared blobs. The sandbox is STARTING until then. */
  async #restoreFiles(row: SandboxRow, spec: PreparedSpec, state: SandboxRuntimeState): Promise<void> {
    const { registry, processes } = this.#deps;
    let reported = Promise.resolve();
    const report = (statusDetail: string) => {
      reported = registry.change(row.id, { status: "STARTING", statusDetail }).catch(() => {});
    };
    await processes.restoreFiles(row, spec, this.#ending(state), report);
    await reported;
  }

  async #prepare(row: SandboxRow, state: SandboxRuntimeState): Promise<PreparedSpec> {
    const { registry, processes, getSpec } = this.#deps;
    const { id } = row;
    if (row.status !== "STARTING") await registry.change(id, { status: "STARTING", statusDetail: null });
    return processes.prepare(row, getSpec(row), this.#ending(state), (text) => {
      registry.change(id, { statusDetail: text }).catch(() => {});
    });
  }
}

/** The store is away, or another server owns the sandbox: a later start may succeed. */
const unrelatedCodes: ReadonlySet<string> = new Set([
  "DatabaseUnavailable",
  "StorageBusy",
  "OwnershipLost",
  "NodeUnreachable",
  "SandboxMoved",
]);

function concernsSandbox(error: unknown): boolean {
  return !(error instanceof PlatformError && unrelatedCodes.has(error.code));
}

function isPortTaken(error: unknown): boolean {
  return error instanceof PlatformError && error.code === "PortUnreachable";
}
