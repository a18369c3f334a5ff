import { randomBytes, randomUUID } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { CreateOptions, SandboxNotice } from "../api.ts";
import type { SandboxSpec } from "../driver.ts";
import { newSandboxId } from "../ids.ts";
import type { SandboxChange, SandboxRow, SandboxStore } from "../sandbox-store.ts";
import { cutConnections, newRuntimeState, type SandboxRuntimeState } from "./runtime-state.ts";
import type { SharedSandboxes } from "./shared-sandboxes.ts";
import type { SnapshotService } from "./snapshots.ts";
import type { UserDisk } from "./user-disk.ts";

export interface SandboxRegistryDeps {
  store: SandboxStore;
  shared: SharedSandboxes | undefined;
  /** Ids that the engine may know, including those that are being removed. */
  ids: Set<string>;
  snapshots: Pick<SnapshotService, "hold" | "release" | "require">;
  /** Milliseconds since the epoch. */
  now: () => number;
  quota: {
    /** Maximum number of sandboxes of a user in any state; 0: no limit. */
    max: number;
    /** Throws TooManySandboxes when the user's files leave no room for another sandbox. */
    requireDisk: UserDisk["require"];
  };
}

/** The records of all sandboxes, their runtime state, and the listeners of their changes. */
export class SandboxRegistry {
  /** The state of every sandbox that has a record. */
  readonly states = new Map<string, SandboxRuntimeState>();
  readonly now: () => number;
  readonly #deps: SandboxRegistryDeps;
  readonly #listeners = new Set<(notice: SandboxNotice) => void>();
  /** Serialises the changes of a sandbox, so that listeners get its rows in the order of change. */
  readonly #changes = new KeyedMutex();

  constructor(deps: SandboxRegistryDeps) {
    this.#deps = deps;
    this.now = deps.now;
  }

  /** Whether other servers have sandboxes in the same store. */
  get isShared(): boolean {
    return this.#deps.shared !== undefined;
  }

  get(id: string): Promise<SandboxRow | undefined> {
    return this.#deps.store.get(id);
  }

  /** Throws SandboxNotFound. */
  async require(id: string): Promise<SandboxRow> {
    const row = await this.get(id);
    if (!row) throw new PlatformError("UnknownSandbox", { id });
    return row;
  }

  /** Whether a sandbox has no state here, while other servers may handle it. */
  isUnknown(id: string): boolean {
    return this.isShared && !this.states.has(id);
  }

  /** Throws SandboxMoved for a sandbox that another server handles. */
  async requireHere(id: string): Promise<void> {
    if ((await this.get(id)) && this.isUnknown(id))
      throw new PlatformError("SandboxHasMoved", { retryAfter: 1 });
  }

  /** Whether the processes of the record run; false for one that a later start has replaced. */
  isRunning({ id, status, incarnation }: SandboxRow): boolean {
    return status === "RUNNING" && this.states.get(id)?.incarnation === incarnation;
  }

  /** The state of a user's sandbox. Throws SandboxNotFound, also for a sandbox of another user. */
  requireState(userId: string, id: string): SandboxRuntimeState {
    const state = this.states.get(id);
    if (state?.userId !== userId) throw new PlatformError("UnknownSandbox", { id });
    return state;
  }

  /**
   * Throws SandboxMoved when another server may own the sandbox, and the reason of the end when the
   * sandbox is released or deleted.
   */
  requireOwned({ id, removal }: SandboxRuntimeState): void {
    removal.signal.throwIfAborted();
    const { shared } = this.#deps;
    if (shared && !shared.ownerOf(id)) throw new PlatformError("SandboxHasMoved", { retryAfter: 1 });
  }

  onChange(listener: (notice: SandboxNotice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Creates the runtime state of a record. */
  admit(row: SandboxRow): SandboxRuntimeState {
    const state = newRuntimeState(row, this.now());
    this.states.set(row.id, state);
    this.#deps.ids.add(row.id);
    if (row.snapshotId !== null) this.#deps.snapshots.hold(row.snapshotId, row.id);
    return state;
  }

  /** Stores a new sandbox. Throws TooManySandboxes, and SnapshotNotFound for a removed snapshot. */
  async create(row: SandboxRow): Promise<void> {
    const { quota } = this.#deps;
    quota.requireDisk(row.userId);
    const state = this.admit(row);
    try {
      // `admit` keeps the snapshot's files from now on. A missing record tells of an earlier
      // removal.
      if (row.snapshotId !== null) await this.#deps.snapshots.require(row.userId, row.snapshotId);
      // The note comes before the write, because other servers may send requests after the write.
      this.#deps.shared?.noteCreated(row.id);
      await this.#deps.store.create(row, quota.max);
    } catch (error) {
      await this.forget(row);
      throw error;
    }
    state.stopped = true;
    this.#notify(row);
  }

  /** Changes of a sandbox are stored one after another, in the order of the calls. */
  change(id: string, change: SandboxChange): Promise<void> {
    return this.#changes.run(id, async () => {
      await this.#deps.store.update(id, change);
      const row = await this.get(id);
      // The sandbox may have been removed during the update. The listeners know of that already.
      const state = this.states.get(id);
      if (!row || !state) return;
      state.status = row.status;
      this.#notify(row);
    });
  }

  async storeUse(state: SandboxRuntimeState): Promise<void> {
    const { id, lastUsedAt } = state;
    if (lastUsedAt === state.storedUseAt) return;
    state.storedUseAt = lastUsedAt;
    await this.#deps.store.update(id, { lastUsedAt });
  }

  /** Removes a record with `removeRecord`. */
  async remove(
    id: string,
    removeRecord = (): Promise<unknown> => this.#deps.store.remove(id),
  ): Promise<void> {
    await removeRecord();
    const state = this.states.get(id);
    if (state) cutConnections(state);
    this.states.delete(id);
    this.#notify({ id, removed: true });
  }

  /** Drops a sandbox that is gone from the engine. */
  async forget(row: SandboxRow): Promise<void> {
    this.drop(row.id);
    this.#deps.shared?.noteRemoved(row.id);
    await this.releaseSnapshot(row);
  }

  /** Removes a sandbox from memory that another server handles from now on. */
  release(id: string): void {
    this.drop(id);
    this.#notify({ id, released: true });
  }

  /** Removes the state of a sandbox from memory. */
  drop(id: string): void {
    const state = this.states.get(id);
    if (state) cutConnections(state);
    this.states.delete(id);
    this.#deps.ids.delete(id);
  }

  /** The sandbox has its own copy of the files of its snapshot now. */
  async releaseSnapshot({ id, snapshotId }: SandboxRow): Promise<void> {
    if (snapshotId !== null) await this.#deps.snapshots.release(snapshotId, id);
  }

  #notify(notice: SandboxNotice): void {
    for (const listener of this.#listeners) listener(notice);
  }
}

/** The record of a sandbox that is to be started; `prepared`: the root of the spec is ready. */
export function newSandboxRow(
  userId: string,
  spec: SandboxSpec,
  options: Pick<CreateOptions, "id" | "network" | "allow" | "env" | "workingDir" | "snapshotId"> & {
    prepared: boolean;
    now: number;
  },
): SandboxRow {
  const { id = newSandboxId(), snapshotId = null, prepared, now } = options;
  return {
    id,
    userId,
    specId: spec.id,
    status: "STARTING",
    statusDetail: null,
    incarnation: randomUUID(),
    sessionKey: randomBytes(32).toString("base64url"),
    createdAt: now,
    spec: {
      ...spec,
      workingDir: options.workingDir ?? spec.workingDir,
      env: { ...spec.env, ...options.env },
      network: toNetwork(spec, options),
    },
    prepared,
    snapshotId,
    lastUsedAt: now,
  };
}

function toNetwork(spec: SandboxSpec, { network, allow = [] }: Pick<CreateOptions, "network" | "allow">) {
  const own = { ...spec.network, ...network };
  if (allow.length === 0) return own;
  // Rules of a network without access do not apply.
  const [mode, rules] = own.mode === "none" ? (["allowlist", []] as const) : [own.mode, own.allow];
  return { ...own, mode, allow: [...rules, ...allow] };
}
