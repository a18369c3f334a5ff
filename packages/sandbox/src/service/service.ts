import type { Duplex } from "node:stream";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { CreateOptions, Sandboxes } from "../api.ts";
import type { DriverSandbox, PreparedSpec, SandboxDriver, SandboxSpec } from "../driver.ts";
import type { Egress } from "../network/api.ts";
import type { Sandbox } from "../sandbox.ts";
import type { SandboxChange, SandboxRow, SandboxStore, SnapshotStore } from "../sandbox-store.ts";
import { chooseEvictions } from "./capacity.ts";
import { SandboxHandles } from "./handles.ts";
import type { IdlePolicy } from "./idle.ts";
import { newSandbox } from "./new-sandbox.ts";
import { SandboxProcesses } from "./processes.ts";
import { Reaper } from "./reaper.ts";
import {
  cutConnections,
  isBusy,
  type Lease,
  newRuntimeState,
  type SandboxRuntimeState,
} from "./runtime-state.ts";
import { SnapshotService } from "./snapshots.ts";

export interface SandboxServiceOptions {
  driver: SandboxDriver;
  store: { sandboxes: SandboxStore; snapshots: SnapshotStore };
  /** At least one; the first is the default. */
  specs: SandboxSpec[];
  /** The spec of a user who names none; undefined: the first. */
  defaultSpec?: (userId: string) => SandboxSpec | undefined;
  /** The way out of sandboxes; without it there is none. */
  egress?: Egress;
  idle?: IdlePolicy;
  /** Running sandboxes of a user; 0: no limit. */
  maxPerUser?: number;
  /** Room on the filesystem that holds the sandboxes, bytes. */
  space?: () => Promise<{ free: number; total: number } | undefined>;
  logger: Pick<Logger, "info" | "warn" | "error">;
  startTimeoutMs?: number;
  prepareTimeoutMs?: number;
  /** How often the patrol looks at idle and large sandboxes, ms; 0: only when `patrol.tick` is called. */
  reapIntervalMs?: number;
  /** Milliseconds since the epoch. */
  now?: () => number;
  /** Milliseconds by a clock that nobody sets. */
  steady?: () => number;
}

type Listener = Parameters<Sandboxes["onChange"]>[0];

/** When a start whose end could not be stored is tried again, ms. */
const restartMs = 5_000;

const never: IdlePolicy = { pauseAfterMs: 0, hibernateAfterMs: 0, deleteAfterMs: 0 };

/** Lifecycle and ownership of sandboxes over one driver. Operations on one sandbox are served one after the other. */
export class SandboxService implements Sandboxes {
  readonly snapshots: SnapshotService;
  /** Looks after idle and large sandboxes, and removes what belongs to none. */
  readonly reaper: Reaper;
  readonly #options: SandboxServiceOptions;
  readonly #driver: SandboxDriver;
  readonly #store: SandboxServiceOptions["store"];
  readonly #logger: SandboxServiceOptions["logger"];
  readonly #now: () => number;
  readonly #processes: SandboxProcesses;
  readonly #access: SandboxHandles;
  readonly #queues = new KeyedMutex();
  readonly #listeners = new Set<Listener>();
  /** Every sandbox that has a record. */
  readonly #live = new Map<string, SandboxRuntimeState>();
  /** Ids that the engine may know: also those that are being removed. */
  readonly #ids = new Set<string>();
  readonly #closing = new AbortController();

  constructor(options: SandboxServiceOptions) {
    const {
      driver,
      store,
      egress,
      logger,
      now = Date.now,
      startTimeoutMs = 30_000,
      prepareTimeoutMs = 1_200_000,
    } = options;
    this.#options = options;
    this.#driver = driver;
    this.#store = store;
    this.#logger = logger;
    this.#now = now;
    this.#processes = new SandboxProcesses({ driver, egress, logger, startTimeoutMs, prepareTimeoutMs });
    this.snapshots = new SnapshotService({
      driver,
      store: store.snapshots,
      sandboxes: this.#ids,
      removeSandbox: (id) => this.#processes.remove(id),
      now,
      stopped: (userId, id, work) => this.#withStopped(userId, id, work),
    });
    this.reaper = new Reaper({
      driver,
      logger,
      now,
      steady: options.steady ?? (() => performance.now()),
      policy: options.idle ?? never,
      everyMs: options.reapIntervalMs ?? 0,
      space: options.space ?? (async () => undefined),
      live: this.#live,
      known: { sandboxes: this.#ids, snapshots: this.snapshots.ids },
      egress,
      lastTraffic: (id) => egress?.lastTraffic(id),
      perform: {
        pause: (id, due) => this.#queues.run(id, async () => void (due() && (await this.#pauseUnused(id)))),
        hibernate: (id, due) =>
          this.#queues.run(id, async () => void (due() && (await this.#processes.stop(this.#live.get(id)!)))),
        delete: (id, due) => this.#queues.run(id, async () => void (due() && (await this.#remove(id)))),
        stop: (id, reason) => this.#queues.run(id, () => this.#stopFor(id, reason)),
        write: (live) => this.#writeUse(live),
      },
    });
    this.#access = new SandboxHandles({
      driver,
      live: this.#live,
      now,
      onUse: (id) => this.reaper.disk.noteUse(id),
      settled: (id) => this.#queues.idle(id),
      wake: (id) => this.running(id),
      environment: (row) => this.#processes.environment(row, row.spec as PreparedSpec),
    });
  }

  async open(): Promise<void> {
    await this.#driver.open();
    const engine = new Map((await this.#driver.list()).map(({ id, state }) => [id, state]));
    const rows = this.#store.sandboxes.all();
    for (const row of rows) this.#admit(row);
    for (const id of this.#store.snapshots.ids()) this.reaper.known.snapshots.add(id);
    for (const id of engine.keys()) if (!this.#ids.has(id)) await this.#processes.remove(id);
    await this.reaper.reap();
    for (const row of rows) await this.#adopt(row, engine.get(row.id) ?? "stopped");
    this.reaper.start();
  }

  specs(): SandboxSpec[] {
    return [...this.#options.specs];
  }

  resolveSpec(userId: string, specId?: string): SandboxSpec {
    if (specId === undefined) return this.#options.defaultSpec?.(userId) ?? this.#options.specs[0]!;
    const spec = this.#options.specs.find(({ id }) => id === specId);
    if (!spec) throw new PlatformError("SandboxSpecNotFound", `There is no sandbox spec ${specId}.`);
    return spec;
  }

  getSpec(row: SandboxRow): SandboxSpec {
    return (row.spec as SandboxSpec | null) ?? this.resolveSpec(row.userId, row.specId);
  }

  async create(userId: string, specId?: string, options: CreateOptions = {}): Promise<SandboxRow> {
    const snapshot =
      options.snapshotId === undefined ? undefined : this.snapshots.get(userId, options.snapshotId);
    if (options.snapshotId !== undefined && !snapshot)
      throw new PlatformError("SnapshotNotFound", `There is no snapshot ${options.snapshotId}.`);
    const fromSnapshot = specId === undefined ? (snapshot?.spec as PreparedSpec | undefined) : undefined;
    const spec = fromSnapshot ?? this.resolveSpec(userId, specId);
    const row = newSandbox(userId, spec, {
      ...options,
      prepared: fromSnapshot !== undefined,
      now: this.#now(),
    });
    const live = this.#admit(row);
    try {
      await this.#store.sandboxes.create(row);
    } catch (error) {
      await this.#forget(row);
      throw error;
    }
    live.stopped = true;
    this.#tell(row);
    this.#startInBackground(row.id, "stopped", options.after);
    return row;
  }

  get(userId: string, id: string): SandboxRow | undefined {
    const row = this.#store.sandboxes.get(id);
    return row?.userId === userId ? row : undefined;
  }

  search(userId: string, page: PageRequest): PageResult<SandboxRow> {
    return this.#store.sandboxes.search({ userId }, page);
  }

  bySessionKey(key: string): SandboxRow | undefined {
    return this.#store.sandboxes.bySessionKey(key);
  }

  async running(id: string, beforeWake?: () => Promise<void>): Promise<Sandbox> {
    this.#access.used(id);
    await this.#queues.idle(id);
    if (beforeWake && this.#store.sandboxes.get(id)?.status === "PAUSED") await beforeWake();
    const usable = (row: SandboxRow | undefined) =>
      row?.status === "RUNNING" && row.prepared && this.#live.get(id)?.incarnation !== undefined;
    if (!usable(this.#store.sandboxes.get(id))) {
      await this.#queues.run(id, async () => {
        const row = this.#existing(id);
        if (usable(row)) return;
        // One that was stopped with a reason goes on only when its user wants it.
        const barred = row.status === "ERROR" || (row.status === "PAUSED" && row.statusDetail !== null);
        if (barred) throw new PlatformError("SandboxFailed", row.statusDetail ?? "The sandbox has failed.");
        await this.#bringUp(row);
      });
    }
    return this.#access.handle(this.#existing(id), beforeWake);
  }

  async pause(userId: string, id: string): Promise<void> {
    this.#owned(userId, id);
    await this.#queues.run(id, () => this.#pause(this.#owned(userId, id)));
  }

  async resume(userId: string, id: string): Promise<void> {
    this.#owned(userId, id);
    this.#access.used(id);
    await this.#queues.run(id, async () => {
      const row = this.#owned(userId, id);
      if (row.status === "RUNNING" && this.#live.get(id)?.incarnation !== undefined) return;
      if (row.status === "PAUSED" && row.statusDetail !== null) this.reaper.disk.allowGrace(id);
      await this.#bringUp(row);
    });
  }

  async remove(userId: string, id: string, beside?: () => Promise<unknown>): Promise<void> {
    this.#owned(userId, id);
    const live = this.#live.get(id);
    live?.removal.abort(new PlatformError("SandboxNotFound", `The sandbox ${id} has been deleted.`));
    await this.#queues
      .run(id, () => this.#remove(id, beside))
      .catch((error) => {
        // The record could not be removed, so the sandbox is still there to be used.
        if (live) live.removal = new AbortController();
        throw error;
      });
  }

  async connect(id: string, port: number): Promise<Duplex> {
    return this.#access.connect(await this.running(id), port);
  }

  refreshSecretAccess(id: string): void {
    const work = this.#queues.run(id, async () => {
      const row = this.#store.sandboxes.get(id);
      const live = this.#live.get(id);
      if (row?.status !== "RUNNING" || live?.incarnation === undefined) return;
      if (!isBusy(live) && this.#processes.lacksSecrets(row, row.spec as PreparedSpec))
        await this.#processes.stop(live);
    });
    work.catch((error) =>
      this.#logger.warn(
        { sandbox: id, reason: errorText(error) },
        "a sandbox could not be given its secrets",
      ),
    );
  }

  acquire(id: string, occupant: Lease): () => void {
    const occupants = this.#live.get(id)?.leases;
    occupants?.add(occupant);
    return () => void occupants?.delete(occupant);
  }

  onChange(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async close(): Promise<void> {
    this.#closing.abort(
      new PlatformError("SandboxFailed", "The server is ending; it goes on with this at its next start."),
    );
    await this.reaper.close();
    await this.#queues.allIdle();
    await Promise.allSettled([...this.#live.values()].map((live) => this.#writeUse(live)));
    await this.#driver.close();
  }

  /** Brings one record into line with what the engine says after a restart. */
  async #adopt(row: SandboxRow, state: DriverSandbox["state"]): Promise<void> {
    const { id } = row;
    const live = this.#live.get(id)!;
    if (row.status === "STARTING") return this.#startInBackground(id, state);
    live.stopped = state === "stopped";
    if (state === "stopped") return;
    live.hasSlot = state === "running";
    // What ran while the server was away was not left alone by its user.
    if (state === "running") live.lastUsedAt = this.#now();
    if (row.status === "RUNNING" && state === "paused") await this.#change(id, { status: "PAUSED" });
    else if (row.status === "PAUSED" && state === "running")
      await this.#change(id, { status: "RUNNING", statusDetail: null });
    if (!row.prepared) return;
    const spec = row.spec as PreparedSpec;
    live.diskLimit = spec.limits.diskBytes;
    // A paused one gets its way out when it is resumed, and one that cannot have it now at its next use.
    if (state === "paused") return;
    try {
      await this.#processes.attach(row, spec);
      live.incarnation = row.incarnation;
    } catch (error) {
      this.#logger.warn(
        { sandbox: id, reason: errorText(error) },
        "a sandbox could not be given its way out again",
      );
    }
  }

  #startInBackground(id: string, state?: DriverSandbox["state"], after?: Promise<void>): void {
    this.#queues
      .run(id, async () => {
        await after;
        const row = this.#store.sandboxes.get(id);
        if (row) await this.#bringUp(row, state);
      })
      .catch((error) => {
        this.#logger.warn({ sandbox: id, reason: errorText(error) }, "a sandbox could not be started");
        // A full disk takes no failure either, and who looks at the record would wait for ever.
        const retry = () => this.#isStarting(id) && this.#startInBackground(id);
        if (this.#isStarting(id)) setTimeout(retry, restartMs).unref();
      });
  }

  #isStarting(id: string): boolean {
    return !this.#closing.signal.aborted && this.#store.sandboxes.get(id)?.status === "STARTING";
  }

  /** Makes a sandbox run, from whatever state it is in (`known`, else the engine is asked). A failure becomes the record's ERROR. */
  async #bringUp(row: SandboxRow, known?: DriverSandbox["state"]): Promise<void> {
    const { id } = row;
    const live = this.#live.get(id)!;
    try {
      const prepared = row.prepared ? (row.spec as PreparedSpec) : await this.#prepare(row, live);
      await this.#makeRoom(live);
      const { incarnation, spec } = await this.#processes.bringUp(live, row, prepared, known);
      const change = { status: "RUNNING", statusDetail: null, incarnation, snapshotId: null } as const;
      await this.#change(id, {
        ...change,
        ...(spec !== row.spec && { spec, prepared: true }),
        lastUsedAt: live.lastUsedAt,
      });
      if (row.snapshotId !== null) await this.snapshots.release(row.snapshotId, id);
      live.incarnation = incarnation;
      live.diskLimit = spec.limits.diskBytes;
      live.storedUseAt = live.lastUsedAt;
      // Those that were being started at the same time could not make room.
      void this.#makeRoom(live);
    } catch (error) {
      live.hasSlot = false;
      // A start that the server's end or a deletion breaks off leaves the record as it is, for the next start or for nobody.
      this.#closing.signal.throwIfAborted();
      live.removal.signal.throwIfAborted();
      const explained = error instanceof PlatformError;
      const reason = explained ? error.message : `The sandbox could not be started: ${errorText(error)}.`;
      await this.#change(id, { status: "ERROR", statusDetail: reason });
      throw explained ? error : new PlatformError("SandboxFailed", reason, { cause: error });
    }
  }

  async #prepare(row: SandboxRow, live: SandboxRuntimeState): Promise<PreparedSpec> {
    const { id } = row;
    if (row.status !== "STARTING") await this.#change(id, { status: "STARTING", statusDetail: null });
    const signal = AbortSignal.any([live.removal.signal, this.#closing.signal]);
    return this.#processes.prepare(this.getSpec(row), signal, (text) => {
      this.#change(id, { statusDetail: text }).catch(() => {});
    });
  }

  /** Pauses others of the user where there would be too many. Never rejects. */
  async #makeRoom(live: SandboxRuntimeState): Promise<void> {
    const others = chooseEvictions(this.#live.values(), live, this.#options.maxPerUser ?? 0);
    live.hasSlot = true;
    for (const other of others) other.hasSlot = false;
    const pauses = others.map(async (other) => {
      await this.#queues.run(other.id, () => this.#pause(this.#existing(other.id)));
    });
    for (const [index, { status }] of (await Promise.allSettled(pauses)).entries())
      if (status === "rejected") others[index]!.hasSlot = others[index]!.status === "RUNNING";
  }

  async #pause(row: SandboxRow): Promise<void> {
    const { id } = row;
    const live = this.#live.get(id)!;
    if (row.status === "PAUSED") return;
    if (row.status === "ERROR")
      throw new PlatformError("SandboxFailed", row.statusDetail ?? "The sandbox has failed.");
    await this.#driver.pause(id).catch((error) => {
      // A sandbox whose processes are gone is as good as paused: a resume starts it on its files.
      if (error?.code !== "SandboxNotRunning") throw error;
      this.#processes.ended(live);
    });
    await this.#change(id, { status: "PAUSED", statusDetail: null, lastUsedAt: live.lastUsedAt }).catch(
      async (error) => {
        // A frozen sandbox that the record calls running would never be resumed.
        await this.#driver.resume(id).catch(() => {});
        throw error;
      },
    );
    live.storedUseAt = live.lastUsedAt;
    live.pausedAt = this.#now();
    live.hasSlot = false;
    cutConnections(live);
  }

  /** Pauses a sandbox that nobody uses; a command that came while its processes were frozen lets them go again. */
  async #pauseUnused(id: string): Promise<void> {
    await this.#pause(this.#existing(id));
    if (isBusy(this.#live.get(id)!)) await this.#bringUp(this.#existing(id));
  }

  /** Stops a sandbox at once; only its user can make it run again. */
  async #stopFor(id: string, reason: string): Promise<void> {
    const row = this.#existing(id);
    const live = this.#live.get(id)!;
    if (row.status !== "RUNNING") return;
    await this.#change(id, { status: "PAUSED", statusDetail: reason });
    await this.#processes.stop(live).catch(async (error) => {
      // What runs on has to be looked at again.
      await this.#change(id, { status: "RUNNING", statusDetail: null });
      throw error;
    });
    this.#logger.warn({ sandbox: id, reason }, "a sandbox was stopped");
  }

  /** Serves work that may need the processes to end, and starts those of a running sandbox again. */
  async #withStopped<T>(userId: string, id: string, work: (row: SandboxRow) => Promise<T>): Promise<T> {
    this.#owned(userId, id);
    return this.#queues.run(id, async () => {
      const row = this.#owned(userId, id);
      const live = this.#live.get(id)!;
      if (row.status === "ERROR" || !row.prepared)
        throw new PlatformError(
          "SandboxFailed",
          row.statusDetail ?? `The sandbox ${id} has never run; resume it first.`,
        );
      await this.#processes.beforeStop(live);
      try {
        return await work(row);
      } finally {
        const state = (await this.#driver.list()).find((one) => one.id === id)?.state;
        if (state !== "running" && state !== "paused") this.#processes.ended(live);
        else if (row.status === "PAUSED" && state === "running") await this.#driver.pause(id);
        if (row.status === "RUNNING" && live.incarnation === undefined)
          await this.#bringUp(row, "stopped").catch((error) => {
            this.#logger.warn(
              { sandbox: id, reason: errorText(error) },
              "a sandbox could not be started again",
            );
          });
      }
    });
  }

  async #remove(id: string, beside?: () => Promise<unknown>): Promise<void> {
    const row = this.#store.sandboxes.get(id);
    if (!row) return;
    const live = this.#live.get(id);
    // The record goes first: what a crash leaves in the engine is an orphan, which is reaped. Writes of one turn are one transaction.
    await Promise.all([this.#store.sandboxes.remove(id), beside?.()]);
    if (live) cutConnections(live);
    this.#live.delete(id);
    this.#tell({ id, removed: true });
    await this.#processes.remove(id);
    await this.#forget(row);
  }

  async #change(id: string, change: SandboxChange): Promise<void> {
    await this.#store.sandboxes.update(id, change);
    const row = this.#store.sandboxes.get(id);
    if (!row) return;
    const live = this.#live.get(id);
    if (live) live.status = row.status;
    this.#tell(row);
  }

  async #writeUse(live: SandboxRuntimeState): Promise<void> {
    const { id, lastUsedAt } = live;
    if (lastUsedAt === live.storedUseAt) return;
    live.storedUseAt = lastUsedAt;
    await this.#store.sandboxes.update(id, { lastUsedAt });
  }

  #admit(row: SandboxRow): SandboxRuntimeState {
    const live = newRuntimeState(row, this.#now());
    this.#live.set(row.id, live);
    this.#ids.add(row.id);
    if (row.snapshotId !== null) this.snapshots.hold(row.snapshotId, row.id);
    return live;
  }

  async #forget({ id, snapshotId }: SandboxRow): Promise<void> {
    this.#live.delete(id);
    this.#ids.delete(id);
    if (snapshotId !== null) await this.snapshots.release(snapshotId, id);
  }

  #tell(change: Parameters<Listener>[0]): void {
    for (const listener of this.#listeners) listener(change);
  }

  #existing(id: string): SandboxRow {
    const row = this.#store.sandboxes.get(id);
    if (!row) throw new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
    return row;
  }

  #owned(userId: string, id: string): SandboxRow {
    const row = this.#existing(id);
    if (row.userId !== userId) throw new PlatformError("SandboxNotFound", `There is no sandbox ${id}.`);
    return row;
  }
}
