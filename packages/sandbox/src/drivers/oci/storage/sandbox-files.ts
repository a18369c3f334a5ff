import { rmSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { FilesOf, PreparedSpec } from "../../../driver.ts";
import { HostRoot } from "./host-root.ts";
import { Layers } from "./layers.ts";
import {
  getImage,
  listLayers,
  type RecordDraft,
  Records,
  type StoredSandbox,
  type StoredSnapshot,
} from "./records.ts";
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
}

/**
 * The files of an installation's sandboxes and snapshots. A layer that no record uses is garbage.
 * Each change replaces one record synchronously with its layers.
 */
export class SandboxFiles {
  readonly layers: Layers;
  readonly #sandboxes: Records<StoredSandbox>;
  readonly #snapshots: Records<StoredSnapshot>;
  readonly #hostRoot: HostRoot;
  #references: LayerReferences | undefined;
  /** True when a record cannot be read, which may use any layer. */
  #unreadable = false;
  /** Layers of records that are drafts. */
  readonly #drafted = new Set<string>();

  constructor({ dir, idBase, hostMounts }: SandboxFilesOptions) {
    this.layers = new Layers(dir, idBase);
    this.#sandboxes = new Records(join(dir, "sandboxes"));
    this.#snapshots = new Records(join(dir, "snapshots"));
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
    const snapshot = snapshotId === undefined ? undefined : this.#snapshots.peek(snapshotId);
    if (snapshotId !== undefined && !snapshot) throw new PlatformError("UnknownSnapshot", { id: snapshotId });
    const fullSpec: PreparedSpec = snapshot ? { ...spec, root: snapshot.root } : spec;
    const hostLayer = this.#hostLayer(fullSpec);
    return this.#set(id, {
      spec: fullSpec,
      upper: this.layers.make(),
      layers: snapshot?.layers ?? [],
      hostLayer,
    });
  }

  /** The record for the next start: the sandbox's files over the current root of the machine. */
  renew(id: string, record: StoredSandbox, spec: PreparedSpec): StoredSandbox {
    this.layers.unseal(record.upper);
    const fullSpec: PreparedSpec = { ...spec, root: record.spec.root };
    const next = { ...record, spec: fullSpec, hostLayer: this.#hostLayer(fullSpec) };
    return JSON.stringify(next) === JSON.stringify(record) ? record : this.#set(id, next);
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
    const next = { ...record, upper: this.layers.make(), layers };
    const snapshot = { root: spec.root, layers, hostLayer };
    const drafts: RecordDraft[] = [];
    this.#drafted.add(next.upper);
    const discard = () => {
      for (const draft of drafts) draft.discard();
      this.#drafted.delete(next.upper);
      for (const path of this.layers.discard([next.upper])) rmSync(path, { recursive: true, force: true });
    };
    try {
      drafts.push(this.#sandboxes.draft(id, next));
      drafts.push(this.#snapshots.draft(snapshotId, snapshot));
    } catch (error) {
      discard();
      throw error;
    }
    const commit = () => {
      // In this order a crash in between leaves no garbage; `renew` restores the work folder.
      this.layers.seal(upper);
      for (const draft of drafts) draft.commit();
      this.#drafted.delete(next.upper);
      this.#snapshots.forget(snapshotId);
      // The sandbox gives the old upper layer up and has it as a lower one.
      this.#references?.add([next.upper, ...listLayers(snapshot)]);
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

  /** Removes unused layers and the trash of an earlier process. */
  async collectGarbage(): Promise<void> {
    const references = this.#countReferences();
    const unused = this.#unreadable
      ? []
      : this.layers
          .names()
          .filter(
            (name) => !references.has(name) && !this.#drafted.has(name) && !this.#hostRoot.isCached(name),
          );
    this.layers.discard(unused);
    await removeTrees(this.layers.trash());
  }

  /** The layers of snapshots that none of the sandboxes has. */
  listSnapshotLayers(snapshots: readonly string[], sandboxes: readonly string[]): string[] {
    const ofSandboxes = sandboxes.flatMap((id) => readRecord(this.#sandboxes, id)?.layers ?? []);
    const kept = new Set(snapshots.flatMap((id) => readRecord(this.#snapshots, id)?.layers ?? []));
    return [...kept.difference(new Set(ofSandboxes))];
  }

  /** The layers above the root, uppermost first; undefined: there are no such files. */
  listLayersOf({ kind, id }: FilesOf): string[] | undefined {
    if (kind === "snapshot") return this.#snapshots.peek(id)?.layers;
    const record = this.#sandboxes.peek(id);
    return record && [record.upper, ...record.layers];
  }

  /**
   * Makes folders the layers of a sandbox or a snapshot, uppermost first. They move, so they must
   * be on the filesystem of the layers.
   */
  adopt({ kind, id }: FilesOf, spec: PreparedSpec, folders: readonly string[]): void {
    const hostLayer = this.#hostLayer(spec);
    const names = folders.map((folder, index) =>
      this.layers.adopt(folder, { isWritable: kind === "sandbox" && index === 0 }),
    );
    const [upper, ...lower] = names as [string, ...string[]];
    if (kind === "sandbox") this.#set(id, { spec, upper, layers: lower, hostLayer });
    else {
      this.#snapshots.set(id, { root: spec.root, layers: names, hostLayer });
      this.#snapshots.forget(id);
      this.#references?.add(listLayers({ root: spec.root, layers: names, hostLayer }));
    }
  }

  /** Every image that a sandbox or a snapshot uses. */
  images(): Set<string> {
    return new Set(this.#readAll().flatMap((record) => (record && getImage(record)) ?? []));
  }

  #set(id: string, record: StoredSandbox): StoredSandbox {
    const before = this.#references && this.#sandboxes.peek(id);
    this.#sandboxes.set(id, record);
    this.#references?.add(listLayers(record));
    if (before) this.#references?.release(listLayers(before));
    return record;
  }

  #hostLayer(spec: PreparedSpec): string | null {
    return spec.root.kind === "host" ? this.#hostRoot.getLayer(spec) : null;
  }

  async #removeRecord(records: Records<StoredSandbox | StoredSnapshot>, id: string): Promise<void> {
    const references = this.#countReferences();
    const record = readRecord(records, id);
    records.remove(id);
    if (!record) return;
    const unused = references.release(listLayers(record)).filter((name) => name !== record.hostLayer);
    await removeTrees(this.layers.discard(unused));
  }

  /** Reads every record at the first call; later the counts follow the changes. */
  #countReferences(): LayerReferences {
    if (this.#references) return this.#references;
    const references = new LayerReferences();
    for (const record of this.#readAll()) {
      if (record) references.add(listLayers(record));
      else this.#unreadable = true;
    }
    this.#references = references;
    return references;
  }

  /** 25 µs per record; undefined for one that cannot be read. */
  #readAll(): (StoredSandbox | StoredSnapshot | undefined)[] {
    const kinds: Records<StoredSandbox | StoredSnapshot>[] = [this.#sandboxes, this.#snapshots];
    return kinds.flatMap((records) => records.ids().map((id) => readRecord(records, id)));
  }
}

/** Undefined also for a record that a power failure truncated. */
function readRecord<T>(records: Records<T>, id: string): T | undefined {
  try {
    return records.peek(id);
  } catch {
    return undefined;
  }
}

/** Counts how many records use each layer. */
class LayerReferences {
  readonly #counts = new Map<string, number>();

  add(names: string[]): void {
    for (const name of names) this.#counts.set(name, (this.#counts.get(name) ?? 0) + 1);
  }

  /** Returns the names that no record uses any more. */
  release(names: string[]): string[] {
    return names.filter((name) => {
      const left = (this.#counts.get(name) ?? 0) - 1;
      if (left > 0) this.#counts.set(name, left);
      else this.#counts.delete(name);
      return left <= 0;
    });
  }

  has(name: string): boolean {
    return this.#counts.has(name);
  }
}
