import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "../../../errors.ts";
import type { PreparedSpec } from "../../driver.ts";
import { idRangeSize } from "./config.ts";
import { makeHostRoot, nameHostRoot } from "./root-folder.ts";
import { makeRootTemplate, type TemplateEntry } from "./root-template.ts";

/**
 * The folder of one sandbox: `rootfs/` (its writable layer), `config.json` (for the runtime), `exec/` (short-lived process files)
 * and `sandbox.json`, which is written last: a bundle without it is half-made.
 */
export interface Bundle {
  id: string;
  folder: string;
  rootfs: string;
  spec: PreparedSpec;
  /** First host id of the sandbox's own range. */
  idBase: number;
}

/** A folder like a bundle's that waits for its name. */
interface Spare {
  folder: string;
  idBase: number;
  /** The spec that it was made for, as JSON. */
  spec: string;
}

/** Below the ids that the kernel and systemd give a meaning of their own. */
const firstBase = 0x1000_0000;
const rangeCount = (0x7ffe_0000 - firstBase) / idRangeSize;

/** All bundles of an installation. Reads the folder once; afterwards it knows which id ranges are in use. */
export class Bundles {
  readonly #dir: string;
  readonly #folder: string;
  readonly #known = new Map<string, Bundle>();

  #template: TemplateEntry[] = [];
  #spare: Spare | undefined;

  /** `dir` is the driver's folder. */
  constructor(dir: string) {
    this.#dir = dir;
    this.#folder = join(dir, "bundles");
  }

  open(): void {
    this.#template = makeRootTemplate(this.#dir);
    rmSync(this.#spareFolder(), { recursive: true, force: true });
    mkdirSync(this.#folder, { recursive: true });
    // The sandbox's root has to get through to its root folder, and may not list what lies beside it.
    chmodSync(this.#folder, 0o711);
    for (const id of this.ids()) this.get(id);
  }

  /** Names of all folders, half-made ones included. */
  ids(): string[] {
    return readdirSync(this.#folder);
  }

  folderOf(id: string): string {
    return join(this.#folder, id);
  }

  /** The complete bundle of that name. */
  get(id: string): Bundle | undefined {
    const known = this.#known.get(id);
    if (known) return known;
    const folder = this.folderOf(id);
    try {
      const { spec, idBase } = JSON.parse(readFileSync(join(folder, "sandbox.json"), "utf8"));
      const bundle = { id, folder, rootfs: join(folder, "rootfs"), spec, idBase };
      this.#known.set(id, bundle);
      return bundle;
    } catch {
      return undefined;
    }
  }

  /** Makes the folder of a new sandbox with its root filesystem. The name must be free. Throws what the filesystem throws. */
  create(id: string, spec: PreparedSpec): Bundle {
    const folder = this.folderOf(id);
    const spare = this.#takeSpare(spec);
    const idBase = spare?.idBase ?? this.#freeBase();
    const bundle: Bundle = { id, folder, rootfs: join(folder, "rootfs"), spec, idBase };
    this.#known.set(id, bundle);
    if (spare) renameSync(spare.folder, folder);
    else this.#make(folder, spec, idBase);
    nameHostRoot(bundle.rootfs, id);
    const target = join(folder, "sandbox.json");
    writeFileSync(`${target}.new`, JSON.stringify({ spec, idBase }), { mode: 0o600 });
    renameSync(`${target}.new`, target);
    return bundle;
  }

  /**
   * Makes a folder for the next sandbox of this spec in advance, unless there is one; to be called while the server waits for
   * something else. What goes wrong is left to the next `create`.
   */
  prepare(spec: PreparedSpec): void {
    if (this.#spare) return;
    const folder = this.#spareFolder();
    try {
      const idBase = this.#freeBase();
      rmSync(folder, { recursive: true, force: true });
      this.#make(folder, spec, idBase);
      this.#spare = { folder, idBase, spec: JSON.stringify(spec) };
    } catch {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  /** Removes what was made in advance. */
  close(): void {
    this.#spare = undefined;
    rmSync(this.#spareFolder(), { recursive: true, force: true });
  }

  #spareFolder(): string {
    return join(this.#dir, "spare");
  }

  #takeSpare(spec: PreparedSpec): Spare | undefined {
    if (this.#spare?.spec !== JSON.stringify(spec)) return undefined;
    const spare = this.#spare;
    this.#spare = undefined;
    return spare;
  }

  #make(folder: string, spec: PreparedSpec, idBase: number): void {
    mkdirSync(folder);
    chmodSync(folder, 0o711);
    mkdirSync(join(folder, "exec"), { mode: 0o700 });
    makeHostRoot(join(folder, "rootfs"), spec, idBase, this.#template);
  }

  /** To be called once the folder is gone: its id range may be used again. */
  forget(id: string): void {
    this.#known.delete(id);
  }

  exists(id: string): boolean {
    return existsSync(this.folderOf(id));
  }

  /** The first free range, searched from a place of this installation's own, so that two of them on one machine do not share ranges. */
  #freeBase(): number {
    const used = new Set([...this.#known.values()].map((bundle) => bundle.idBase));
    if (this.#spare) used.add(this.#spare.idBase);
    const start = createHash("sha256").update(this.#folder).digest().readUInt32BE(0) % rangeCount;
    for (let offset = 0; offset < rangeCount; offset++) {
      const base = firstBase + ((start + offset) % rangeCount) * idRangeSize;
      if (!used.has(base)) return base;
    }
    throw new PlatformError("SandboxFailed", `There are ${rangeCount} sandboxes already; delete some that are no longer needed.`);
  }
}
