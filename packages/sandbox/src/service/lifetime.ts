import type { SandboxAdopter } from "./adopter.ts";
import type { SandboxOperations } from "./operations.ts";
import type { SandboxServiceOptions } from "./options.ts";
import type { Reaper } from "./reaper.ts";
import type { SandboxReleaser } from "./releaser.ts";
import type { SnapshotService } from "./snapshots.ts";

export interface SandboxLifetimeDeps {
  options: Pick<SandboxServiceOptions, "driver" | "kept" | "shared" | "store">;
  snapshots: Pick<SnapshotService, "ids">;
  adopter: SandboxAdopter;
  releaser: SandboxReleaser;
  operations: Pick<SandboxOperations, "abortStarts" | "discard" | "settle">;
  reaper: Reaper;
}

/** The begin and the end of a server's work on sandboxes, on all of them or on some. */
export class SandboxLifetime {
  readonly reaper: Reaper;
  readonly #deps: SandboxLifetimeDeps;

  constructor(deps: SandboxLifetimeDeps) {
    this.#deps = deps;
    this.reaper = deps.reaper;
  }

  /** See `Sandboxes.open`. */
  async open(): Promise<void> {
    const { driver, store, shared, kept } = this.#deps.options;
    await driver.open();
    if (!shared) await this.#adoptAll();
    await kept?.keepMissing([], await store.snapshots.owners());
    this.reaper.start();
  }

  /** Adopts all sandboxes, and removes what the engine has besides. */
  async #adoptAll(): Promise<void> {
    const { options, snapshots, adopter, operations } = this.#deps;
    const { driver, store } = options;
    for (const id of await store.snapshots.ids()) snapshots.ids.add(id);
    const rows = await store.sandboxes.all();
    for (const row of rows) adopter.admit(row);
    const known = new Set(rows.map(({ id }) => id));
    for (const { id } of await driver.list()) if (!known.has(id)) await operations.discard(id);
    await this.reaper.reap();
    await adopter.align(rows);
  }

  /** See `Sandboxes.adopt`. */
  adopt(ids: readonly string[]): Promise<void> {
    return this.#deps.adopter.adopt(ids);
  }

  /** See `Sandboxes.release`. */
  release(ids: readonly string[], how: { lost: boolean }): Promise<void> {
    return this.#deps.releaser.release(ids, how);
  }

  async close(): Promise<void> {
    const { options, operations } = this.#deps;
    operations.abortStarts();
    await options.kept?.close();
    await this.reaper.close();
    await operations.settle();
    await options.driver.close();
  }
}
