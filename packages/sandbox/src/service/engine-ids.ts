import type { KnownIds } from "../driver.ts";
import type { SandboxStore, SnapshotStore } from "../sandbox-store.ts";

export interface EngineIdsDeps {
  store: { sandboxes: Pick<SandboxStore, "listIds">; snapshots: Pick<SnapshotStore, "ids"> };
  /** Ids of this process's sandboxes and snapshots. */
  own: [sandboxes: ReadonlySet<string>, snapshots: ReadonlySet<string>];
  /** Other servers have sandboxes in the engine too. */
  isShared: boolean;
}

/**
 * Ids of the sandboxes and snapshots that the engine may have, also during creation and removal.
 */
export class EngineIds implements KnownIds {
  readonly sandboxes: KnownIds["sandboxes"];
  readonly snapshots: KnownIds["snapshots"];
  readonly #deps: EngineIdsDeps;
  /** Ids that the store had at the last `refresh`. */
  #stored = { sandboxes: new Set<string>(), snapshots: new Set<string>() };

  constructor(deps: EngineIdsDeps) {
    this.#deps = deps;
    const [sandboxes, snapshots] = deps.own;
    this.sandboxes = { has: (id) => sandboxes.has(id) || this.#stored.sandboxes.has(id) };
    this.snapshots = { has: (id) => snapshots.has(id) || this.#stored.snapshots.has(id) };
  }

  /** Reads the ids that other servers have created. Throws what the store throws. */
  async refresh(): Promise<void> {
    const { store, isShared } = this.#deps;
    if (!isShared) return;
    // Snapshots are read first: a snapshot whose record is removed while a sandbox still awaits it
    // is then among the awaited ones.
    const snapshots = await store.snapshots.ids();
    const rows = await store.sandboxes.listIds();
    const awaited = rows.flatMap(({ snapshotId }) => snapshotId ?? []);
    this.#stored = {
      sandboxes: new Set(rows.map(({ id }) => id)),
      snapshots: new Set([...snapshots, ...awaited]),
    };
  }

  /** Whether a sandbox of another server has yet to begin with a snapshot. */
  async isAwaited(snapshotId: string): Promise<boolean> {
    const { store, isShared } = this.#deps;
    return isShared && (await store.sandboxes.listIds()).some((row) => row.snapshotId === snapshotId);
  }
}
