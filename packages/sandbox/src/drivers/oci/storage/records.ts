import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { PreparedSpec, SandboxRoot } from "../../../driver.ts";

/** The parts of a sandbox. Layers are names of `Layers`. */
export interface StoredSandbox {
  spec: PreparedSpec;
  /** The writable layer. */
  upper: string;
  /** Read-only layers of snapshots between `upper` and the root, uppermost first. */
  layers: string[];
  /** The generated layer of a `host` root. */
  hostLayer: string | null;
}

/** The files of a snapshot: layers above a root. */
export interface StoredSnapshot {
  root: SandboxRoot;
  layers: string[];
  hostLayer: string | null;
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

/**
 * Records of one kind in one JSON file each, which is replaced atomically. A record that was read
 * stays in memory until `forget`.
 */
export class Records<T> {
  readonly #folder: string;
  readonly #known = new Map<string, T>();

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder))
      if (!name.endsWith(".json")) rmSync(join(folder, name), { recursive: true });
  }

  ids(): string[] {
    return readdirSync(this.#folder)
      .filter((name) => name.endsWith(".json"))
      .map((name) => name.slice(0, -5));
  }

  has(id: string): boolean {
    return this.#known.has(id) || existsSync(this.#path(id));
  }

  /** Undefined when it does not exist. Throws when it cannot be read. */
  get(id: string): T | undefined {
    const known = this.#known.get(id);
    if (known) return known;
    const record = this.peek(id);
    if (record) this.#known.set(id, record);
    return record;
  }

  /** Like `get`, but keeps nothing in memory. */
  peek(id: string): T | undefined {
    try {
      return JSON.parse(readFileSync(this.#path(id), "utf8"));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  set(id: string, record: T): void {
    this.draft(id, record).commit();
  }

  /** Writes a record that takes effect with `commit`, which needs no space on the disk. */
  draft(id: string, record: T): RecordDraft {
    const draft = join(this.#folder, `${id}.${randomBytes(6).toString("hex")}`);
    const discard = () => rmSync(draft, { force: true });
    try {
      writeFileSync(draft, JSON.stringify(record), { mode: 0o600 });
    } catch (error) {
      discard();
      throw error;
    }
    return {
      commit: () => {
        renameSync(draft, this.#path(id));
        this.#known.set(id, record);
      },
      discard,
    };
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

  #path(id: string): string {
    return join(this.#folder, `${id}.json`);
  }
}
