import type { Duplex } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { CreateOptions, Sandboxes, SandboxNotice } from "../api.ts";
import type { PreparedSpec, SandboxDriver, SandboxSpec } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import type { Sandbox } from "../sandbox.ts";
import type { SandboxRow, SandboxStore, SnapshotStore } from "../sandbox-store.ts";
import { SandboxAdopter } from "./adopter.ts";
import type { DiskSpace } from "./disk-space.ts";
import { DiskWatch } from "./disk-watch.ts";
import { EngineIds } from "./engine-ids.ts";
import { SandboxHandles } from "./handles.ts";
import type { IdlePolicy } from "./idle.ts";
import { IdleSandboxes } from "./idle-sandboxes.ts";
import type { KeptFiles } from "./kept-files.ts";
import { KernelWatch } from "./kernel-watch.ts";
import { Orphans } from "./orphans.ts";
import { SandboxProcesses } from "./processes.ts";
import { noQuotas, type SandboxQuotas } from "./quotas.ts";
import { Reaper } from "./reaper.ts";
import { newSandboxRow, SandboxRegistry } from "./registry.ts";
import { SandboxReleaser } from "./releaser.ts";
import { runStopped } from "./run-stopped.ts";
import { isBusy, type Lease, listRunning } from "./runtime-state.ts";
import type { SharedSandboxes, SharedSlots } from "./shared-sandboxes.ts";
import { SandboxSlots } from "./slots.ts";
import { SnapshotService } from "./snapshots.ts";
import { SpecChoice, type SpecChoiceDeps } from "./spec-choice.ts";
import { SandboxStarter } from "./starter.ts";
import { SandboxSuspender } from "./suspender.ts";
import { SandboxUse } from "./use.ts";
import { UserDisk } from "./user-disk.ts";
import { UserImages } from "./user-images.ts";

export interface SandboxServiceOptions extends SpecChoiceDeps {
  driver: SandboxDriver;
  store: { sandboxes: SandboxStore; snapshots: SnapshotStore };
  /** Network access of sandboxes; without it there is none. */
  egress?: Egress;
  idle?: IdlePolicy;
  /** Running sandboxes of a user; 0: no limit. */
  maxPerUser?: number;
  quotas?: Partial<SandboxQuotas>;
  /** Set when other servers use the same store: this server handles only sandboxes it owns. */
  shared?: SharedSandboxes | undefined;
  sharedSlots?: SharedSlots | undefined;
  /** Copies of files in the shared blobs; undefined without shared blobs. */
  kept?: KeptFiles | undefined;
  /** Space on the filesystem that holds the sandboxes. */
  space?: () => Promise<DiskSpace | undefined>;
  logger: Pick<Logger, "info" | "warn" | "error">;
  startTimeoutMs?: number;
  prepareTimeoutMs?: number;
  /** Interval of the reaper, ms; 0: only when `reaper.tick` is called. */
  reapIntervalMs?: number;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds of a monotonic clock. */
  steady?: () => number;
}

/** How long a use of a paused sandbox waits until its user may run another one, ms. */
const wakeWaitMs = 60_000;

const never: IdlePolicy = { pauseAfterMs: 0, hibernateAfterMs: 0, deleteAfterMs: 0 };

/**
 * Lifecycle and ownership of sandboxes over one driver. Operations on one sandbox are serialised.
 */
export class SandboxService implements Sandboxes {
  readonly snapshots: SnapshotService;
  readonly reaper: Reaper;
  readonly #options: SandboxServiceOptions;
  readonly #specs: SpecChoice;
  readonly #registry: SandboxRegistry;
  readonly #processes: SandboxProcesses;
  readonly #suspender: SandboxSuspender;
  readonly #slots: SandboxSlots;
  readonly #starter: SandboxStarter;
  readonly #adopter: SandboxAdopter;
  readonly #releaser: SandboxReleaser;
  readonly #handles: SandboxHandles;
  readonly #disk: DiskWatch;
  readonly #use: SandboxUse;
  readonly #mutex = new KeyedMutex();
  readonly #ids = new Set<string>();

  constructor(options: SandboxServiceOptions) {
    const { driver, store, egress, kept, logger, now = Date.now } = options;
    const { startTimeoutMs = 30_000, prepareTimeoutMs = 1_200_000 } = options;
    this.#options = options;
    this.#specs = new SpecChoice(options);
    const quotas = { ...noQuotas, ...options.quotas };
    const images = new UserImages({
      owner: (id) => registry.states.get(id)?.userId,
      snapshots: store.snapshots,
      ...{ specs: options.specs, max: quotas.images },
      everywhere: options.shared && ((userId) => store.sandboxes.listByUser(userId)),
    });
    const timeouts = { startMs: startTimeoutMs, prepareMs: prepareTimeoutMs };
    const processes = new SandboxProcesses({ driver, egress, images, kept, logger, timeouts });
    this.snapshots = new SnapshotService({
      driver,
      store: store.snapshots,
      temporary: { ids: this.#ids, remove: (id) => processes.remove(id) },
      rules: { now, maxPerUser: quotas.snapshots, isAwaitedElsewhere: (id) => known.isAwaited(id) },
      kept,
      withStopped: (userId, id, work) =>
        this.#operate(userId, id, (row) => runStopped(stopping(), row, () => work(row))),
    });
    const stopping = () => ({ driver, store: store.sandboxes, registry, processes, starter, logger });
    const mutex = this.#mutex;
    const registry = new SandboxRegistry({
      store: store.sandboxes,
      shared: options.shared,
      ids: this.#ids,
      snapshots: this.snapshots,
      now,
      quota: { max: quotas.sandboxes, requireDisk: (userId) => users.require(userId) },
    });
    const users = new UserDisk({
      states: registry.states,
      measure: async (id) => (await driver.usage(id)).diskBytes,
      snapshots: {
        owners: () => store.snapshots.owners(),
        measure: (...ids) => driver.snapshotBytes(...ids),
      },
      maxBytes: quotas.userDiskBytes,
    });
    const suspender = new SandboxSuspender({ registry, processes, driver, logger });
    const slots = new SandboxSlots({
      states: registry.states,
      maxPerUser: options.maxPerUser ?? 0,
      shared: options.sharedSlots,
      pauseIdle: (id) =>
        mutex.run(id, async () => {
          const row = await registry.get(id);
          const state = registry.states.get(id);
          if (row && state && !isBusy(state)) await suspender.pause(row);
        }),
    });
    const getSpec: SandboxService["getSpec"] = (row) => this.getSpec(row);
    const starter = new SandboxStarter({ registry, processes, slots, mutex, getSpec, logger });
    const whenDue = (id: string, isDue: () => boolean, work: (row: SandboxRow) => Promise<void>) =>
      mutex.run(id, async () => {
        const row = await registry.get(id);
        // `work` begins right after `isDue`, without an await in between.
        if (row && isDue()) await work(row);
      });
    const { states } = registry;
    const steady = options.steady ?? (() => performance.now());
    const idle = new IdleSandboxes({
      policy: options.idle ?? never,
      states,
      egress,
      perform: {
        pause: (id, isDue) => whenDue(id, isDue, (row) => this.#pauseIdle(row)),
        hibernate: (id, isDue) => whenDue(id, isDue, () => processes.hibernate(states.get(id)!)),
        delete: (id, isDue) => whenDue(id, isDue, (row) => this.#remove(row)),
        storeUse: (state) => registry.storeUse(state),
      },
      clock: { now, steady },
      logger,
    });
    const known = new EngineIds({ store, own: [this.#ids, this.snapshots.ids], isShared: !!options.shared });
    const orphans = new Orphans({ driver, egress, known, logger, steady });
    this.#disk = new DiskWatch({
      running: () => listRunning(states),
      usage: (id, bounds) => driver.usage(id, bounds),
      stop: (id, reason) => mutex.run(id, () => suspender.stop(id, reason)),
      disk: {
        space: options.space ?? (async () => undefined),
        maxFiles: quotas.files || Number.MAX_SAFE_INTEGER,
        users,
      },
      now: steady,
      logger,
    });
    const kernel = new KernelWatch({
      running: () => listRunning(states),
      measure: (id, bounds) => driver.uncountedBytes(id, bounds),
      stop: (id, reason) => mutex.run(id, () => suspender.stop(id, reason)),
      logger,
    });
    const { reapIntervalMs: intervalMs = 0 } = options;
    this.reaper = new Reaper({ idle, disk: this.#disk, kernel, orphans, logger, intervalMs });
    this.#use = new SandboxUse({ states, now, onUse: (id) => this.#disk.noteUse(id) });
    this.#handles = new SandboxHandles({
      driver,
      states,
      use: this.#use,
      settled: (id) => mutex.idle(id),
      wake: (id) => this.running(id),
      facts: {
        environment: (row) => processes.environment(row, row.spec as PreparedSpec),
        watchProblems: egress && ((id) => egress.watchProblems(id)),
        diskRoom: (row) =>
          Math.min((row.spec as PreparedSpec).limits.diskBytes, users.room(row.userId, row.id)),
      },
    });
    this.#registry = registry;
    this.#processes = processes;
    this.#suspender = suspender;
    this.#slots = slots;
    this.#starter = starter;
    this.#adopter = new SandboxAdopter({ driver, store: store.sandboxes, registry, images, starter, kept });
    this.#releaser = new SandboxReleaser({ registry, egress, kept, mutex, logger });
  }

  async open(): Promise<void> {
    const { driver, store, shared, kept } = this.#options;
    await driver.open();
    if (!shared) {
      for (const id of await store.snapshots.ids()) this.snapshots.ids.add(id);
      const rows = await store.sandboxes.all();
      for (const row of rows) this.#adopter.admit(row);
      for (const { id } of await driver.list()) if (!this.#ids.has(id)) await this.#processes.remove(id);
      await this.reaper.reap();
      await this.#adopter.align(rows);
    }
    await kept?.keepMissing([], await store.snapshots.owners());
    this.reaper.start();
  }

  adopt(ids: readonly string[]): Promise<void> {
    return this.#adopter.adopt(ids);
  }

  release(ids: readonly string[], how: { lost: boolean }): Promise<void> {
    return this.#releaser.release(ids, how);
  }

  specs(): SandboxSpec[] {
    return [...this.#options.specs];
  }

  async resolveSpec(userId: string, specId?: string): Promise<SandboxSpec> {
    return specId === undefined ? this.#specs.getDefault(userId) : this.#specs.require(specId);
  }

  getSpec(row: SandboxRow): SandboxSpec {
    return this.#specs.ofRow(row);
  }

  async create(userId: string, specId?: string, options: CreateOptions = {}): Promise<SandboxRow> {
    const { snapshotId, after } = options;
    const snapshot = snapshotId === undefined ? undefined : await this.snapshots.require(userId, snapshotId);
    const snapshotSpec = specId === undefined ? (snapshot?.spec as PreparedSpec | undefined) : undefined;
    // With a spec and no snapshot the write begins before any await, in the caller's transaction.
    const named = specId === undefined ? snapshotSpec : this.#specs.require(specId);
    const spec = options.spec ?? named ?? (await this.#specs.getDefault(userId));
    const facts = { prepared: snapshotSpec !== undefined, now: this.#registry.now() };
    const row = newSandboxRow(userId, spec, { ...options, ...facts });
    await this.#registry.create(row);
    this.#starter.startInBackground(row.id, "stopped", after);
    return row;
  }

  async get(userId: string, id: string): Promise<SandboxRow | undefined> {
    const row = await this.#registry.get(id);
    return row?.userId === userId ? row : undefined;
  }

  search(userId: string, page: PageRequest): Promise<PageResult<SandboxRow>> {
    return this.#options.store.sandboxes.search({ userId }, page);
  }

  async running(id: string, beforeWake?: () => Promise<void>): Promise<Sandbox> {
    const registry = this.#registry;
    this.#use.note(id);
    await this.#mutex.idle(id);
    if (this.#isUnknown(id)) await this.#requireHere(id);
    if (beforeWake && registry.states.get(id)?.status === "PAUSED") await beforeWake();
    const isUsable = (row: SandboxRow) => row.prepared && this.#isRunning(row);
    let row = await registry.require(id);
    if (!isUsable(row)) {
      row = await this.#mutex.run(id, async () => {
        if (this.#isUnknown(id)) await this.#requireHere(id);
        const row = await registry.require(id);
        if (isUsable(row)) return row;
        // Only its user resumes a sandbox that was stopped for a reason.
        if (row.status === "ERROR" || (row.status === "PAUSED" && row.statusDetail !== null))
          throw new PlatformError("SandboxHasFailed", { reason: row.statusDetail });
        await this.#starter.start(row, undefined, wakeWaitMs);
        return registry.require(id);
      });
    }
    return this.#handles.open(row, beforeWake);
  }

  pause(userId: string, id: string): Promise<void> {
    return this.#operate(userId, id, (row) => this.#suspender.pause(row));
  }

  async resume(userId: string, id: string): Promise<void> {
    if (this.#isUnknown(id)) await this.#requireHere(id);
    this.#registry.requireState(userId, id);
    this.#use.note(id);
    await this.#operate(userId, id, async (row) => {
      if (this.#isRunning(row)) return;
      if (row.status === "PAUSED" && row.statusDetail !== null) this.#disk.allowGrace(id);
      await this.#starter.start(row);
    });
  }

  async remove(userId: string, id: string, removeRecord?: () => Promise<unknown>): Promise<void> {
    // A sandbox that is being created has no record yet, and its creation must go on.
    await this.#registry.require(id);
    if (this.#isUnknown(id)) await this.#requireHere(id);
    const state = this.#registry.requireState(userId, id);
    state.removal.abort(new PlatformError("SandboxDeleted", { id }));
    await this.#mutex
      .run(id, async () => {
        const row = await this.#registry.get(id);
        if (row) await this.#remove(row, removeRecord);
      })
      .catch((error) => {
        // The record could not be removed, so the sandbox stays usable.
        state.removal = new AbortController();
        throw error;
      });
  }

  async connect(id: string, port: number): Promise<Duplex> {
    return this.#handles.connect(await this.running(id), port);
  }

  acquire(id: string, lease: Lease): () => void {
    const leases = this.#registry.states.get(id)?.leases;
    leases?.add(lease);
    return () => void leases?.delete(lease);
  }

  onChange(listener: (notice: SandboxNotice) => void): () => void {
    return this.#registry.onChange(listener);
  }

  async close(): Promise<void> {
    this.#starter.close();
    await this.#options.kept?.close();
    await this.reaper.close();
    await this.#mutex.allIdle();
    const states = [...this.#registry.states.values()];
    await Promise.allSettled(states.map((state) => this.#registry.storeUse(state)));
    await this.#options.driver.close();
  }

  /**
   * Runs an operation of the sandbox's user in its turn. Throws SandboxNotFound, and
   * SandboxNotRunning when its turn would come after a wait for a slot.
   */
  async #operate<T>(userId: string, id: string, operation: (row: SandboxRow) => Promise<T>): Promise<T> {
    const registry = this.#registry;
    if (this.#isUnknown(id)) await this.#requireHere(id);
    const state = registry.requireState(userId, id);
    return this.#slots.whileNotQueued(state, (isRefused) =>
      this.#mutex.run(id, async () => {
        const row = await registry.require(id);
        if (isRefused()) throw new PlatformError("UnknownSandbox", { id });
        return operation(row);
      }),
    );
  }

  /** Whether a sandbox has no state here, while other servers may handle it. */
  #isUnknown(id: string): boolean {
    return this.#options.shared !== undefined && !this.#registry.states.has(id);
  }

  /** Throws SandboxMoved for a sandbox that another server handles. */
  async #requireHere(id: string): Promise<void> {
    if ((await this.#registry.get(id)) && this.#isUnknown(id))
      throw new PlatformError("SandboxHasMoved", { retryAfter: 1 });
  }

  /** Whether the processes of the record run; false for one that a later start has replaced. */
  #isRunning({ id, status, incarnation }: SandboxRow): boolean {
    return status === "RUNNING" && this.#registry.states.get(id)?.incarnation === incarnation;
  }

  /**
   * Pauses an idle sandbox, and resumes it when a command arrived while its processes were frozen.
   */
  async #pauseIdle(row: SandboxRow): Promise<void> {
    await this.#suspender.pause(row);
    if (isBusy(this.#registry.states.get(row.id)!))
      await this.#starter.start(await this.#registry.require(row.id), undefined, wakeWaitMs);
  }

  async #remove(row: SandboxRow, removeRecord?: () => Promise<unknown>): Promise<void> {
    const { id } = row;
    // The record goes first: what a crash leaves in the engine is an orphan, which is reaped.
    await this.#registry.remove(id, removeRecord);
    await this.#processes.remove(id);
    await this.#registry.forget(row);
  }
}
