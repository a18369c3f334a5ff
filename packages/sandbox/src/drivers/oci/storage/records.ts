import { randomBytes } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import type { PreparedSpec, SandboxRoot } from "../../../driver.ts";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";

/** The parts of a sandbox. Layers are names of `Layers`. */
export interface StoredSandbox {
  spec: PreparedSpec;
  /** The writable layer. */
  upper: string;
  /** Read-only layers of snapshots between `upper` and the root, uppermost first. */
  layers: string[];
  /** The generated layer of a `host` root. */
  hostLayer: string | null;
  /** The member that created the sandbox. While it lives, other members do not reap the sandbox. */
  maker?: string;
}

/** The files of a snapshot: layers above a root. */
export interface StoredSnapshot {
  root: SandboxRoot;
  layers: string[];
  hostLayer: string | null;
  maker?: string;
}

/** A change that is on the disk but has no effect yet. One of the two is called, once. */
export interface RecordDraft {
  commit(): void;
  discard(): void;
}

/** Every layer that a record uses, without those of images. */
export function listLayers(record: StoredSandbox | StoredSnapshot): string[] {
  const upper = "upper" in record ? [record.upper] : [];
  return [...upper, ...record.layers, ...(record.hostLayer === null ? [] : [record.hostLayer])];
}

/** The pinned image that a record uses. */
export function getImage(record: StoredSandbox | StoredSnapshot): string | undefined {
  const root = "spec" in record ? record.spec.root : record.root;
  return root.kind === "image" ? root.reference : undefined;
}

interface Known<T> {
  record: T;
  /** Stamp of the file from which the record was read. */
  stamp: string;
}

/**
 * Records of one kind in one JSON file each, which is replaced atomically. A record that was read
 * stays in memory until `forget`, or until another process replaces its file.
 */
export class Records<T extends StoredSandbox | StoredSnapshot> {
  readonly #folder: string;
  readonly #members: FolderMembers;
  readonly #known = new Map<string, Known<T>>();
  /** Layers that each file used at the last read, by the name of the file. */
  readonly #uses = new Map<string, { stamp: string; layers: string[] }>();

  /** Removes the drafts of members that have ended. */
  constructor(folder: string, members: FolderMembers) {
    this.#folder = folder;
    this.#members = members;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder))
      if (!name.endsWith(".json") && !members.isLiving(name.split(".")[1] ?? ""))
        rmSync(join(folder, name), { recursive: true, force: true });
  }

  ids(): string[] {
    return readdirSync(this.#folder)
      .filter((name) => name.endsWith(".json"))
      .map((name) => name.slice(0, -5));
  }

  has(id: string): boolean {
    return existsSync(this.#path(id));
  }

  /** Undefined when it does not exist. Throws when it cannot be read. */
  get(id: string): T | undefined {
    const stamp = this.#stamp(`${id}.json`);
    const known = this.#known.get(id);
    if (known && known.stamp === stamp) return known.record;
    this.#known.delete(id);
    const record = this.peek(id);
    // A file that was replaced during the read has another stamp, so the next call reads it again.
    if (record && stamp !== undefined) this.#known.set(id, { record, stamp });
    return record;
  }

  /** Like `get`, but keeps nothing in memory. */
  peek(id: string): T | undefined {
    return this.#read(`${id}.json`);
  }

  /**
   * Returns the layers that any record or draft uses. Returns undefined when a file cannot be read,
   * because it may use any layer. Reads drafts first, because drafts become records.
   */
  layers(): Set<string> | undefined {
    const names = readdirSync(this.#folder);
    const isRecord = (name: string) => name.endsWith(".json");
    const used = new Set<string>();
    try {
      for (const name of names.filter((one) => !isRecord(one)))
        for (const layer of this.#layersOf(name)) used.add(layer);
      const records = readdirSync(this.#folder).filter(isRecord);
      for (const name of records) for (const layer of this.#layersOf(name)) used.add(layer);
      const existing = new Set(records);
      for (const name of this.#uses.keys()) if (!existing.has(name)) this.#uses.delete(name);
    } catch {
      return undefined;
    }
    return used;
  }

  set(id: string, record: T): void {
    this.draft(id, record).commit();
  }

  /** Writes a record that takes effect with `commit`, which needs no space on the disk. */
  draft(id: string, record: T): RecordDraft {
    const draft = join(this.#folder, `${id}.${this.#members.name}.${randomBytes(6).toString("hex")}`);
    const discard = () => rmSync(draft, { force: true });
    try {
      writeFileSync(draft, JSON.stringify(record), { mode: 0o600 });
    } catch (error) {
      discard();
      throw error;
    }
    const commit = () => {
      renameSync(draft, this.#path(id));
      this.#known.delete(id);
    };
    return { commit, discard };
  }

  /** Removing an unknown record is fine. */
  remove(id: string): void {
    rmSync(this.#path(id), { force: true });
    this.#known.delete(id);
  }

  /** Frees the memory of the record. */
  forget(id: string): void {
    this.#known.delete(id);
  }

  /** Returns the layers of a file. Reads the file only if it has changed since the last call. */
  #layersOf(name: string): string[] {
    const stamp = this.#stamp(name);
    const known = this.#uses.get(name);
    if (known && known.stamp === stamp) return known.layers;
    const record = this.#read(name);
    const layers = record ? listLayers(record) : [];
    if (stamp !== undefined && name.endsWith(".json")) this.#uses.set(name, { stamp, layers });
    return layers;
  }

  #read(name: string): T | undefined {
    try {
      return JSON.parse(readFileSync(join(this.#folder, name), "utf8"));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Returns a text that differs for each file of the same name; undefined for a missing file. */
  #stamp(name: string): string | undefined {
    const stat = statSync(join(this.#folder, name), { bigint: true, throwIfNoEntry: false });
    return stat && `${stat.ino} ${stat.ctimeNs}`;
  }

  #path(id: string): string {
    return join(this.#folder, `${id}.json`);
  }
}
