import type { CreateOptions } from "../api.ts";
import type { PreparedSpec } from "../driver.ts";
import type { SandboxRow } from "../sandbox-store.ts";
import { newSandboxRow, type SandboxRegistry } from "./registry.ts";
import type { SnapshotService } from "./snapshots.ts";
import type { SpecChoice } from "./spec-choice.ts";
import type { SandboxStarter } from "./starter.ts";

export interface SandboxCreationDeps {
  specs: SpecChoice;
  snapshots: Pick<SnapshotService, "require">;
  registry: Pick<SandboxRegistry, "create" | "now">;
  starter: Pick<SandboxStarter, "startInBackground">;
}

/** Creates sandboxes, empty ones and ones with the files of a snapshot. */
export class SandboxCreation {
  readonly #deps: SandboxCreationDeps;

  constructor(deps: SandboxCreationDeps) {
    this.#deps = deps;
  }

  /** See `Sandboxes.create`. */
  async create(userId: string, specId: string | undefined, options: CreateOptions): Promise<SandboxRow> {
    const { specs, snapshots, registry, starter } = this.#deps;
    const { snapshotId, after } = options;
    const snapshot = snapshotId === undefined ? undefined : await snapshots.require(userId, snapshotId);
    const snapshotSpec = specId === undefined ? (snapshot?.spec as PreparedSpec | undefined) : undefined;
    // With a spec and no snapshot the write begins before any await, in the caller's transaction.
    const named = specId === undefined ? snapshotSpec : specs.require(specId);
    const spec = options.spec ?? named ?? (await specs.getDefault(userId));
    const facts = { prepared: snapshotSpec !== undefined, now: registry.now() };
    const row = newSandboxRow(userId, spec, { ...options, ...facts });
    await registry.create(row);
    starter.startInBackground(row.id, "stopped", after);
    return row;
  }
}
