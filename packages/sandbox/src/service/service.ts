import type { Duplex } from "node:stream";
import type { PageRequest, PageResult } from "@sandpiper/core/paging";
import type { CreateOptions, Sandboxes, SandboxNotice } from "../api.ts";
import type { SandboxSpec } from "../driver.ts";
import type { Sandbox } from "../sandbox.ts";
import type { SandboxRow, SandboxStore } from "../sandbox-store.ts";
import type { SandboxServiceOptions } from "./options.ts";
import { createParts, type ServiceParts } from "./parts.ts";
import type { Reaper } from "./reaper.ts";
import type { Lease } from "./runtime-state.ts";
import type { SnapshotService } from "./snapshots.ts";

/**
 * Lifecycle and ownership of sandboxes over one driver. Operations on one sandbox are serialised.
 */
export class SandboxService implements Sandboxes {
  readonly snapshots: SnapshotService;
  readonly reaper: Reaper;
  readonly #store: SandboxStore;
  readonly #parts: ServiceParts;

  constructor(options: SandboxServiceOptions) {
    const parts = createParts(options);
    this.#store = options.store.sandboxes;
    this.#parts = parts;
    this.snapshots = parts.snapshots;
    this.reaper = parts.lifetime.reaper;
  }

  open(): Promise<void> {
    return this.#parts.lifetime.open();
  }

  adopt(ids: readonly string[]): Promise<void> {
    return this.#parts.lifetime.adopt(ids);
  }

  release(ids: readonly string[], how: { lost: boolean }): Promise<void> {
    return this.#parts.lifetime.release(ids, how);
  }

  specs(): SandboxSpec[] {
    return this.#parts.specs.list();
  }

  async resolveSpec(userId: string, specId?: string): Promise<SandboxSpec> {
    const { specs } = this.#parts;
    return specId === undefined ? specs.getDefault(userId) : specs.require(specId);
  }

  getSpec(row: SandboxRow): SandboxSpec {
    return this.#parts.specs.ofRow(row);
  }

  create(userId: string, specId?: string, options: CreateOptions = {}): Promise<SandboxRow> {
    return this.#parts.creation.create(userId, specId, options);
  }

  async get(userId: string, id: string): Promise<SandboxRow | undefined> {
    const row = await this.#parts.registry.get(id);
    return row?.userId === userId ? row : undefined;
  }

  search(userId: string, page: PageRequest): Promise<PageResult<SandboxRow>> {
    return this.#store.search({ userId }, page);
  }

  running(id: string, beforeWake?: () => Promise<void>): Promise<Sandbox> {
    return this.#parts.waking.running(id, beforeWake);
  }

  pause(userId: string, id: string): Promise<void> {
    return this.#parts.operations.pause(userId, id);
  }

  resume(userId: string, id: string): Promise<void> {
    return this.#parts.waking.resume(userId, id);
  }

  remove(userId: string, id: string, removeRecord?: () => Promise<unknown>): Promise<void> {
    return this.#parts.operations.remove(userId, id, removeRecord);
  }

  connect(id: string, port: number): Promise<Duplex> {
    return this.#parts.waking.connect(id, port);
  }

  acquire(id: string, lease: Lease): () => void {
    const leases = this.#parts.registry.states.get(id)?.leases;
    leases?.add(lease);
    return () => void leases?.delete(lease);
  }

  onChange(listener: (notice: SandboxNotice) => void): () => void {
    return this.#parts.registry.onChange(listener);
  }

  close(): Promise<void> {
    return this.#parts.lifetime.close();
  }
}
