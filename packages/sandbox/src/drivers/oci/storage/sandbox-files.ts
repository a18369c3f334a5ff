import { rmSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { FilesOf, PreparedSpec } from "../../../driver.ts";
import type { FolderLock } from "../../common/sharing/folder-lock.ts";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";
import { HostRoot } from "./host-root.ts";
import { Layers } from "./layers.ts";
import { getImage, type RecordDraft, Records, type StoredSandbox, type StoredSnapshot } from "./records.ts";
import { removeTrees } from "./remove-tree.ts";

/** More make every look-up in the root slow, and their names do not fit into one mount. */
const maxLayers = 400;

export interface SandboxFilesOptions {
  /** The driver's folder. */
  dir: string;
  /** Host id of every sandbox's root. */
  idBase: number;
  /** Mount points in `host` sandboxes. */
  hostMounts: string[];
  /** The processes that share the folder, and their lock. */
  members: FolderMembers;
  lock: FolderLock;
}

/**
 * The files of an installation's sandboxes and snapshots. A layer that no record and no draft uses
 * is garbage. A process that creates a layer with its record, or removes a layer, holds the lock of
 * the folder.
 */
export class SandboxFiles {
  readonly layers: Layers;
  readonly #sandboxes: Records<StoredSandbox>;
  readonly #snapshots: Records<StoredSnapshot>;
  readonly #hostRoot: HostRoot;
  readonly #members: FolderMembers;
  readonly #lock: FolderLock;

  constructor({ dir, idBase, hostMounts, members, lock }: SandboxFilesOptions) {
    this.#members = members;
    this.#lock = lock;
    this.layers = new Layers(dir, idBase, members);
    this.#sandboxes = new Records(join(dir, "sandboxes"), members);
    this.#snapshots = new Records(join(dir, "snapshots"), members);
    this.#hostRoot = new HostRoot(this.layers, idBase, hostMounts);
  }

  ids(): string[] {
    return this.#sandboxes.ids();
  }

  snapshotIds(): string[] {
    return this.#snapshots.ids();
  }

  get(id: string): StoredSandbox | undefined {
    return this.#sandboxes.get(id);
  }

  /** Creates a sandbox, empty or with the files and root of a snapshot. Throws SnapshotNotFound. */
  create(id: string, spec: PreparedSpec, snapshotId: string | undefined): StoredSandbox {
    return this.#lock.run(() => this.#create(id, spec, snapshotId));
  }

  #create(id: string, spec: PreparedSpec, snapshotId: string | undefined): StoredSandbox {
    const snapshot = snapshotId === undefined ? undefined : this.#snapshots.peek(snapshotId);
    if (snapshotId !== undefined && !snapshot) throw new PlatformError("UnknownSnapshot", { id: snapshotId });
    const fullSpec: PreparedSpec = snapshot ? { ...spec, root: snapshot.root } : spec;
    const hostLayer = this.#hostLayer(fullSpec);
    return this.#set(id, {
      spec: fullSpec,
      upper: this.layers.make(),
      layers: snapshot?.layers ?? [],
      hostLayer,
      maker: this.#members.name,
    });
  }

  /** The record for the next start: the sandbox's files over the current root of the machine. */
  renew(id: string, record: StoredSandbox, spec: PreparedSpec): StoredSandbox {
    this.layers.unseal(record.upper);
    const fullSpec: PreparedSpec = { ...spec, root: record.spec.root };
    return this.#lock.run(() => {
      const next = { ...record, spec: fullSpec, hostLayer: this.#hostLayer(fullSpec) };
      return JSON.stringify(next) === JSON.stringify(record) ? record : this.#set(id, next);
    });
  }

  /**
   * Prepares a snapshot of a sandbox that may run: takes the space on the disk for it. `commit`
   * stores the files of the stopped sandbox as the snapshot; the sandbox continues in a new layer
   * above them. Throws SandboxFailed, and what the filesystem throws.
   */
  prepareSnapshot(record: StoredSandbox, id: string, snapshotId: string): RecordDraft {
    const { spec, upper, hostLayer } = record;
    const layers = [upper, ...record.layers];
    if (layers.length > maxLayers) throw new PlatformError("SnapshotLimit", { max: maxLayers });
    const snapshot = { root: spec.root, layers, hostLayer, maker: this.#members.name };
    const drafts: RecordDraft[] = [];
    let made: string | undefined;
    const discard = () => {
      for (const draft of drafts) draft.discard();
      const unused = made === undefined ? [] : this.layers.discard([made]);
      for (const path of unused) rmSync(path, { recursive: true, force: true });
    };
    try {
      this.#lock.run(() => {
        made = this.layers.make();
        drafts.push(this.#sandboxes.draft(id, { ...record, upper: made, layers }));
        drafts.push(this.#snapshots.draft(snapshotId, snapshot));
      });
    } catch (error) {
      discard();
      throw error;
    }
    const commit = () => {
      // In this order a crash in between leaves no garbage; `renew` restores the work folder.
      this.layers.seal(upper);
      for (const draft of drafts) draft.commit();
    };
    return { commit, discard };
  }

  /** Removing an unknown sandbox is fine. */
  async remove(id: string): Promise<void> {
    await this.#removeRecord(this.#sandboxes, id);
  }

  /** Removing an unknown snapshot is fine. */
  async removeSnapshot(id: string): Promise<void> {
    await this.#removeRecord(this.#snapshots, id);
  }

  /** Frees the memory of a stopped sandbox. */
  forget(id: string): void {
    this.#sandboxes.forget(id);
  }

  /** Removes unused layers and the trash of ended processes. */
  async collectGarbage(): Promise<void> {
    // The first look is without the lock, because there is rarely anything to remove.
    if (this.#unusedLayers().length > 0) this.#lock.run(() => this.layers.discard(this.#unusedLayers()));
    await removeTrees(this.layers.trash());
  }

  /** True when another living process created the sandbox or the snapshot. */
  isOfOther(kind: "sandbox" | "snapshot", id: string): boolean {
    const record = kind === "sandbox" ? readRecord(this.#sandboxes, id) : readRecord(this.#snapshots, id);
    return this.#members.isOther(record?.maker);
  }

  /** The layers of snapshots that none of the sandboxes has. */
  listSnapshotLayers(snapshots: readonly string[], sandboxes: readonly string[]): string[] {
    const ofSandboxes = sandboxes.flatMap((id) => readRecord(this.#sandboxes, id)?.layers ?? []);
    const kept = new Set(snapshots.flatMap((id) => readRecord(this.#snapshots, id)?.layers ?? []));
    return [...kept.difference(new Set(ofSandboxes))];
  }

  /** Lists the layers above the root, uppermost first; undefined for an unknown id. */
  listLayersOf({ kind, id }: FilesOf): string[] | undefined {
    if (kind === "snapshot") return this.#snapshots.peek(id)?.layers;
    const record = this.#sandboxes.peek(id);
    return record && [record.upper, ...record.layers];
  }

  /**
   * Makes folders the layers of a sandbox or a snapshot, uppermost first. The folders must be on
   * the filesystem of the layers, because renames move them.
   */
  adopt({ kind, id }: FilesOf, spec: PreparedSpec, folders: readonly string[]): void {
    this.#lock.run(() => {
      const hostLayer = this.#hostLayer(spec);
      const maker = this.#members.name;
      const names = folders.map((folder, index) =>
        this.layers.adopt(folder, { isWritable: kind === "sandbox" && index === 0 }),
      );
      const [upper, ...lower] = names as [string, ...string[]];
      if (kind === "sandbox") this.#set(id, { spec, upper, layers: lower, hostLayer, maker });
      else this.#snapshots.set(id, { root: spec.root, layers: names, hostLayer, maker });
    });
  }

  /** Every image that a sandbox or a snapshot uses. */
  images(): Set<string> {
    return new Set(this.#readAll().flatMap((record) => (record && getImage(record)) ?? []));
  }

  #set(id: string, record: StoredSandbox): StoredSandbox {
    this.#sandboxes.set(id, record);
    return record;
  }

  #hostLayer(spec: PreparedSpec): string | null {
    return spec.root.kind === "host" ? this.#hostRoot.getLayer(spec) : null;
  }

  async #removeRecord(records: Records<StoredSandbox | StoredSnapshot>, id: string): Promise<void> {
    const record = readRecord(records, id);
    records.remove(id);
    if (!record) return;
    // No other record has the writable layer of a sandbox. Several records may have other layers.
    const discarded = "upper" in record ? this.layers.discard([record.upper]) : [];
    if (record.layers.length > 0) {
      this.#lock.run(() => {
        const used = this.#usedLayers();
        if (used) discarded.push(...this.layers.discard(record.layers.filter((name) => !used.has(name))));
      });
    }
    await removeTrees(discarded);
  }

  #unusedLayers(): string[] {
    // Layers are listed before records are read, so that the list has no layer that is newer.
    const names = this.layers.names();
    const used = this.#usedLayers();
    if (!used) return [];
    return names.filter((name) => !used.has(name) && !this.#hostRoot.isCached(name));
  }

  /** Returns the used layers; undefined when a record cannot be read, which may use any layer. */
  #usedLayers(): Set<string> | undefined {
    const [sandboxes, snapshots] = [this.#sandboxes.layers(), this.#snapshots.layers()];
    return sandboxes && snapshots && sandboxes.union(snapshots);
  }

  /** 25 µs per record; undefined for one that cannot be read. */
  #readAll(): (StoredSandbox | StoredSnapshot | undefined)[] {
    const kinds: Records<StoredSandbox | StoredSnapshot>[] = [this.#sandboxes, this.#snapshots];
    return kinds.flatMap((records) => records.ids().map((id) => readRecord(records, id)));
  }
}

/** Undefined also for a record that a power failure truncated. */
function readRecord<T extends StoredSandbox | StoredSnapshot>(
  records: Records<T>,
  id: string,
): T | undefined {
  try {
    return records.peek(id);
  } catch {
    return undefined;
  }
}
