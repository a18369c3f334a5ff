import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { PreparedSpec } from "../../../driver.ts";
import { HostRoot } from "./host-root.ts";
import { LayerReferences } from "./layer-references.ts";
import { Layers } from "./layers.ts";
import { imageOf, layersOf, Records, type SandboxRecord, type SnapshotRecord } from "./records.ts";
import { removeTrees } from "./remove-tree.ts";

/** More would make every look-up in the root slow, and their names not fit into one mount. */
const mostLayers = 400;

export interface SandboxFilesOptions {
  /** The driver's folder. */
  dir: string;
  /** Host id of every sandbox's root. */
  idBase: number;
  /** Folders inside that something is mounted on in `host` sandboxes. */
  hostMounts: string[];
}

/**
 * The files of an installation's sandboxes and snapshots. What a record names exists, and a layer that no record names is garbage; each change
 * is one replaced record, made in one go with the layers that it names, so that nothing can come in between.
 */
export class SandboxFiles {
  readonly layers: Layers;
  readonly #sandboxes: Records<SandboxRecord>;
  readonly #snapshots: Records<SnapshotRecord>;
  readonly #hostRoot: HostRoot;
  #references: LayerReferences | undefined;
  /** A record that cannot be read may name any layer. */
  #unreadable = false;

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

  get(id: string): SandboxRecord | undefined {
    return this.#sandboxes.get(id);
  }

  /** A new sandbox, empty or with the files of a snapshot (and then its root). Throws SnapshotNotFound. */
  create(id: string, spec: PreparedSpec, snapshotId: string | undefined): SandboxRecord {
    const snapshot = snapshotId === undefined ? undefined : this.#snapshots.peek(snapshotId);
    if (snapshotId !== undefined && !snapshot)
      throw new PlatformError("SnapshotNotFound", `There is no snapshot ${snapshotId}.`);
    const whole: PreparedSpec = snapshot ? { ...spec, root: snapshot.root } : spec;
    const hostLayer = this.#hostLayer(whole);
    return this.#set(id, {
      spec: whole,
      upper: this.layers.make(),
      layers: snapshot?.layers ?? [],
      hostLayer,
    });
  }

  /** What a sandbox starts again with: its files, over the root that the machine has now. */
  renew(id: string, record: SandboxRecord, spec: PreparedSpec): SandboxRecord {
    this.layers.unseal(record.upper);
    const whole: PreparedSpec = { ...spec, root: record.spec.root };
    const next = { ...record, spec: whole, hostLayer: this.#hostLayer(whole) };
    return JSON.stringify(next) === JSON.stringify(record) ? record : this.#set(id, next);
  }

  /** Keeps the files of a sandbox that does not run, under a name; the sandbox goes on in a new layer above them. Throws SandboxFailed. */
  snapshot(record: SandboxRecord, id: string, snapshotId: string): void {
    const { spec, upper, hostLayer } = record;
    const layers = [upper, ...record.layers];
    if (layers.length > mostLayers) {
      throw new PlatformError(
        "SandboxFailed",
        `A sandbox can hold ${mostLayers} snapshots above each other, and this one does.`,
      );
    }
    // In this order a kill in between leaves nothing behind; `renew` makes good for what is missing then.
    this.layers.seal(upper);
    this.#set(id, { ...record, upper: this.layers.make(), layers });
    const snapshot = { root: spec.root, layers, hostLayer };
    this.#snapshots.set(snapshotId, snapshot);
    this.#snapshots.forget(snapshotId);
    this.#references?.add(layersOf(snapshot));
  }

  /** Removing an unknown one is fine. */
  async remove(id: string): Promise<void> {
    await this.#removeRecord(this.#sandboxes, id);
  }

  /** Removing an unknown one is fine. */
  async removeSnapshot(id: string): Promise<void> {
    await this.#removeRecord(this.#snapshots, id);
  }

  /** Frees the memory that a sandbox takes that does not run. */
  forget(id: string): void {
    this.#sandboxes.forget(id);
  }

  /** Removes the layers that nobody names and what an earlier process left half removed. */
  async collect(): Promise<void> {
    const references = this.#counted();
    const unused = this.#unreadable
      ? []
      : this.layers.names().filter((name) => !references.has(name) && !this.#hostRoot.keeps(name));
    this.layers.discard(unused);
    await removeTrees(this.layers.trash());
  }

  /** Every image that a sandbox or a snapshot needs. */
  images(): Set<string> {
    return new Set(this.#all().flatMap((record) => (record && imageOf(record)) ?? []));
  }

  #set(id: string, record: SandboxRecord): SandboxRecord {
    const before = this.#references && this.#sandboxes.peek(id);
    this.#sandboxes.set(id, record);
    this.#references?.add(layersOf(record));
    if (before) this.#references?.drop(layersOf(before));
    return record;
  }

  #hostLayer(spec: PreparedSpec): string | null {
    return spec.root.kind === "host" ? this.#hostRoot.layerFor(spec) : null;
  }

  async #removeRecord(records: Records<SandboxRecord | SnapshotRecord>, id: string): Promise<void> {
    const references = this.#counted();
    const record = read(records, id);
    records.remove(id);
    if (!record) return;
    const unused = references.drop(layersOf(record)).filter((name) => name !== record.hostLayer);
    await removeTrees(this.layers.discard(unused));
  }

  /** Reads every record once; from then on the counts follow the changes. */
  #counted(): LayerReferences {
    if (this.#references) return this.#references;
    const references = new LayerReferences();
    for (const record of this.#all()) {
      if (record) references.add(layersOf(record));
      else this.#unreadable = true;
    }
    this.#references = references;
    return references;
  }

  /** 25 µs each; undefined stands for one that cannot be read. */
  #all(): (SandboxRecord | SnapshotRecord | undefined)[] {
    const kinds: Records<SandboxRecord | SnapshotRecord>[] = [this.#sandboxes, this.#snapshots];
    return kinds.flatMap((records) => records.ids().map((id) => read(records, id)));
  }
}

/** Undefined also for a record that a power failure cut off. */
function read<T>(records: Records<T>, id: string): T | undefined {
  try {
    return records.peek(id);
  } catch {
    return undefined;
  }
}
