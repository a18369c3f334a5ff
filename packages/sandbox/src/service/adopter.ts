import type { SandboxDriver } from "../driver.ts";
import type { SandboxRow, SandboxStore } from "../sandbox-store.ts";
import type { KeptFiles } from "./kept-files.ts";
import type { SandboxRegistry } from "./registry.ts";
import type { SandboxStarter } from "./starter.ts";
import type { UserImages } from "./user-images.ts";

export interface SandboxAdopterDeps {
  driver: Pick<SandboxDriver, "list">;
  store: Pick<SandboxStore, "listByIds">;
  registry: SandboxRegistry;
  images: Pick<UserImages, "note">;
  starter: SandboxStarter;
  /** Undefined without shared blobs. */
  kept: KeptFiles | undefined;
}

/** Continues sandboxes that a server begins to own: their starts, processes and network. */
export class SandboxAdopter {
  readonly #deps: SandboxAdopterDeps;

  constructor(deps: SandboxAdopterDeps) {
    this.#deps = deps;
  }

  /** Adopts sandboxes that this server does not have yet. */
  async adopt(ids: readonly string[]): Promise<void> {
    const { store, registry, starter } = this.#deps;
    // What this server began before it lost a sandbox may still change its record and processes.
    await Promise.all(ids.map((id) => starter.settled(id)));
    const rows = (await store.listByIds(ids)).filter(({ id }) => !registry.states.has(id));
    for (const row of rows) this.admit(row);
    await this.align(rows);
  }

  /** Creates the state of a sandbox in memory. */
  admit(row: SandboxRow): void {
    this.#deps.registry.admit(row);
    this.#deps.images.note(row);
  }

  /** Corrects the records of admitted sandboxes by the state of the engine. */
  async align(rows: readonly SandboxRow[]): Promise<void> {
    const { driver, starter, kept } = this.#deps;
    if (rows.length === 0) return;
    const engine = new Map((await driver.list()).map(({ id, state }) => [id, state]));
    for (const row of rows) await starter.adopt(row, engine.get(row.id) ?? "stopped");
    const hibernated = rows.filter(({ id, status }) => status === "PAUSED" && engine.get(id) === "stopped");
    await kept?.keepMissing(hibernated, []);
  }
}
