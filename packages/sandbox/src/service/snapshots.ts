import { randomBytes } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { Snapshots } from "../api.ts";
import type { SandboxDriver } from "../driver.ts";
import type { SandboxRow, SnapshotRow, SnapshotStore } from "../sandbox-store.ts";
import { type OpenedSnapshot, openSnapshot } from "./opened-snapshot.ts";

export interface SnapshotServiceDeps {
  driver: Pick<SandboxDriver, "snapshot" | "removeSnapshot" | "start" | "exec" | "shell">;
  /** Ids of sandboxes that the engine may know. */
  sandboxes: Set<string>;
  /** Removes a sandbox that has no record. Never rejects. */
  removeSandbox: (id: string) => Promise<void>;
  store: SnapshotStore;
  /** Milliseconds since the epoch. */
  now: () => number;
  /** Serves work on a user's sandbox that may end its processes. */
  stopped: <T>(userId: string, sandboxId: string, work: (row: SandboxRow) => Promise<T>) => Promise<T>;
}

/** Snapshots: what the engine keeps, and the records of whom it belongs to. A record is made last and removed first, so a crash leaves orphans only. */
export class SnapshotService implements Snapshots {
  /** Ids that the engine may know: also those that are being made or removed. */
  readonly ids = new Set<string>();
  readonly #options: SnapshotServiceDeps;
  /** The sandboxes that have yet to begin with a snapshot. For them the engine keeps it also after its record is gone. */
  readonly #awaited = new Map<string, Set<string>>();

  constructor(options: SnapshotServiceDeps) {
    this.#options = options;
  }

  create(userId: string, sandboxId: string): Promise<SnapshotRow> {
    const { driver, store, now, stopped } = this.#options;
    return stopped(userId, sandboxId, async ({ spec }) => {
      const row: SnapshotRow = { id: newSnapshotId(), userId, sandboxId, spec, createdAt: now() };
      this.ids.add(row.id);
      try {
        await driver.snapshot(sandboxId, row.id);
        await store.create(row);
      } catch (error) {
        await driver.removeSnapshot(row.id).catch(() => {});
        this.ids.delete(row.id);
        throw error;
      }
      return row;
    });
  }

  get(userId: string, id: string): SnapshotRow | undefined {
    const row = this.#options.store.get(id);
    return row?.userId === userId ? row : undefined;
  }

  search(userId: string, page: PageRequest): PageResult<SnapshotRow> {
    return this.#options.store.search({ userId }, page);
  }

  async open(userId: string, id: string): Promise<OpenedSnapshot> {
    const row = this.get(userId, id);
    if (!row) throw new PlatformError("SnapshotNotFound", `There is no snapshot ${id}.`);
    const { driver, sandboxes: ids, removeSandbox: remove } = this.#options;
    return openSnapshot({ driver, ids, snapshots: this, remove }, row);
  }

  async remove(userId: string, id: string): Promise<void> {
    if (!this.get(userId, id)) throw new PlatformError("SnapshotNotFound", `There is no snapshot ${id}.`);
    await this.#options.store.remove(id);
    if (!this.#awaited.has(id)) await this.#discard(id);
  }

  /** A sandbox is going to begin with a snapshot, until `release` is called. */
  hold(id: string, sandboxId: string): void {
    this.ids.add(id);
    this.#awaited.set(id, (this.#awaited.get(id) ?? new Set()).add(sandboxId));
  }

  /** A sandbox has begun with a snapshot, or is gone. Never rejects. */
  async release(id: string, sandboxId: string): Promise<void> {
    const sandboxes = this.#awaited.get(id);
    if (!sandboxes?.delete(sandboxId) || sandboxes.size > 0) return;
    this.#awaited.delete(id);
    if (!this.#options.store.get(id)) await this.#discard(id).catch(() => {});
  }

  async #discard(id: string): Promise<void> {
    try {
      await this.#options.driver.removeSnapshot(id);
    } finally {
      // What could not be removed is reaped.
      this.ids.delete(id);
    }
  }
}

/** `snap-` and 24 hexadecimal digits. */
function newSnapshotId(): string {
  return `snap-${randomBytes(12).toString("hex")}`;
}
