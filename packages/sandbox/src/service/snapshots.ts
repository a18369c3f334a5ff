import { randomBytes } from "node:crypto";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import { KeyedSemaphore } from "@sandpiper/core/scheduling/semaphore";
import type { Snapshots } from "../api.ts";
import type { SandboxDriver } from "../driver.ts";
import type { SandboxRow, SnapshotRow, SnapshotStore } from "../sandbox-store.ts";
import type { KeptFiles } from "./kept-files.ts";
import { type OpenedSnapshot, openSnapshot } from "./opened-snapshot.ts";

export interface SnapshotServiceDeps {
  driver: Pick<SandboxDriver, "snapshot" | "removeSnapshot" | "start" | "exec" | "shell">;
  /** Sandboxes without a record, by which snapshots are read. */
  temporary: {
    /** Ids of sandboxes that the engine may know. */
    ids: Set<string>;
    /** Never rejects. */
    remove: (id: string) => Promise<void>;
  };
  store: SnapshotStore;
  /** Copies of files in the shared blobs; undefined without shared blobs. */
  kept: KeptFiles | undefined;
  rules: {
    /** Returns the present time, milliseconds since the epoch. */
    now: () => number;
    /** Maximum number of snapshots of a user; 0: no limit. */
    maxPerUser: number;
    /** Whether a sandbox of another server has yet to begin with a snapshot. */
    isAwaitedElsewhere: (id: string) => Promise<boolean>;
  };
  /** Runs work on a user's sandbox that may end its processes. */
  withStopped: <T>(userId: string, sandboxId: string, work: (row: SandboxRow) => Promise<T>) => Promise<T>;
}

/** Snapshots of a user that are open at a time, each in a sandbox of its own; others wait. */
const maxOpenedPerUser = 4;

/** Records are created last and removed first, so a crash leaves only orphans. */
export class SnapshotService implements Snapshots {
  /** Ids that the engine may know, including those that are being created or removed. */
  readonly ids = new Set<string>();
  readonly #deps: SnapshotServiceDeps;
  /** Sandboxes that have yet to begin with a snapshot; for them it outlives its record. */
  readonly #awaited = new Map<string, Set<string>>();
  /** One key for each user. */
  readonly #opened = new KeyedSemaphore([maxOpenedPerUser]);

  constructor(deps: SnapshotServiceDeps) {
    this.#deps = deps;
  }

  async create(userId: string, sandboxId: string): Promise<SnapshotRow> {
    const { driver, store, withStopped, rules } = this.#deps;
    const { now, maxPerUser: max } = rules;
    // The copy of the files takes long. The store refuses a snapshot when others came meanwhile.
    if (max > 0 && (await store.count({ userId })) >= max)
      throw new PlatformError("TooManyUserSnapshots", { max });
    const taken = withStopped(userId, sandboxId, async ({ spec }) => {
      const row: SnapshotRow = { id: newSnapshotId(), userId, sandboxId, spec, createdAt: now() };
      this.ids.add(row.id);
      try {
        await driver.snapshot(sandboxId, row.id);
        await store.create(row, max);
      } catch (error) {
        await driver.removeSnapshot(row.id).catch(() => {});
        this.ids.delete(row.id);
        throw error;
      }
      this.#deps.kept?.keepSoon({ kind: "snapshot", id: row.id }, userId);
      return row;
    });
    return taken.catch((error: unknown) => {
      throw toSnapshotError(sandboxId, error);
    });
  }

  async get(userId: string, id: string): Promise<SnapshotRow | undefined> {
    const row = await this.#deps.store.get(id);
    return row?.userId === userId ? row : undefined;
  }

  /** Throws SnapshotNotFound. */
  async require(userId: string, id: string): Promise<SnapshotRow> {
    const row = await this.get(userId, id);
    if (!row) throw new PlatformError("UnknownSnapshot", { id });
    return row;
  }

  search(userId: string, page: PageRequest): Promise<PageResult<SnapshotRow>> {
    return this.#deps.store.search({ userId }, page);
  }

  async open(userId: string, id: string): Promise<OpenedSnapshot> {
    const row = await this.require(userId, id);
    const { driver, temporary } = this.#deps;
    const { ready, release } = this.#opened.enter([userId]);
    await ready;
    try {
      const opened = await openSnapshot({ driver, ...temporary, snapshots: this }, row);
      return { files: opened.files, close: () => opened.close().finally(release) };
    } catch (error) {
      release();
      throw error;
    }
  }

  async remove(userId: string, id: string): Promise<void> {
    await this.require(userId, id);
    await this.#deps.store.remove(id);
    // When a sandbox of another server awaits the snapshot, a later reap removes its files.
    if (!this.#awaited.has(id) && !(await this.#deps.rules.isAwaitedElsewhere(id))) await this.#discard(id);
  }

  /** Keeps a snapshot with which a sandbox is going to begin, until `release` is called. */
  hold(id: string, sandboxId: string): void {
    this.ids.add(id);
    this.#awaited.set(id, (this.#awaited.get(id) ?? new Set()).add(sandboxId));
  }

  /** Ends `hold`: the sandbox has its own files now, or is gone. Never rejects. */
  async release(id: string, sandboxId: string): Promise<void> {
    const sandboxes = this.#awaited.get(id);
    if (!sandboxes?.delete(sandboxId) || sandboxes.size > 0) return;
    this.#awaited.delete(id);
    // When the store cannot be read, the snapshot may have a record, so its files stay.
    const isGone = await this.#isUnused(id).catch(() => false);
    if (isGone && !this.#awaited.has(id)) await this.#discard(id).catch(() => {});
  }

  async #isUnused(id: string): Promise<boolean> {
    const { store, rules } = this.#deps;
    return (await store.get(id)) === undefined && !(await rules.isAwaitedElsewhere(id));
  }

  async #discard(id: string): Promise<void> {
    try {
      await this.#deps.kept?.cancel({ kind: "snapshot", id });
      await this.#deps.driver.removeSnapshot(id);
    } finally {
      // The reaper removes what is left.
      this.ids.delete(id);
    }
  }
}

/** An error of the catalogue; a full disk has a status of its own. */
function toSnapshotError(id: string, error: unknown): unknown {
  const isFull = ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException | null)?.code ?? "");
  if (isFull || error instanceof PlatformError) return error;
  return new PlatformError("SnapshotNotTaken", { id, reason: errorText(error) }, { cause: error });
}

/** `snap-` and 24 hexadecimal digits. */
function newSnapshotId(): string {
  return `snap-${randomBytes(12).toString("hex")}`;
}
