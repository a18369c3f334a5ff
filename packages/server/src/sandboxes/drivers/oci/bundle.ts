import { createHash } from "node:crypto";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "../../../errors.ts";
import type { SandboxSpec } from "../../driver.ts";
import { idRangeSize } from "./config.ts";
import { makeHostRoot } from "./root-folder.ts";
import { makeRootTemplate, type TemplateEntry } from "./root-template.ts";

/**
 * The folder of one sandbox: `rootfs/` (its writable layer), `config.json` (for the runtime), `exec/` (short-lived process files)
 * and `sandbox.json`, which is written last: a bundle without it is half-made.
 */
export interface Bundle {
  id: string;
  folder: string;
  rootfs: string;
  spec: SandboxSpec;
  /** First host id of the sandbox's own range. */
  idBase: number;
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

  /** `dir` is the driver's folder. */
  constructor(dir: string) {
    this.#dir = dir;
    this.#folder = join(dir, "bundles");
  }

  open(): void {
    this.#template = makeRootTemplate(this.#dir);
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
  create(id: string, spec: SandboxSpec): Bundle {
    const folder = this.folderOf(id);
    const bundle: Bundle = { id, folder, rootfs: join(folder, "rootfs"), spec, idBase: this.#freeBase() };
    this.#known.set(id, bundle);
    mkdirSync(folder);
    chmodSync(folder, 0o711);
    mkdirSync(join(folder, "exec"), { mode: 0o700 });
    makeHostRoot(bundle.rootfs, id, spec, bundle.idBase, this.#template);
    const target = join(folder, "sandbox.json");
    writeFileSync(`${target}.new`, JSON.stringify({ spec, idBase: bundle.idBase }), { mode: 0o600 });
    renameSync(`${target}.new`, target);
    return bundle;
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
    const start = createHash("sha256").update(this.#folder).digest().readUInt32BE(0) % rangeCount;
    for (let offset = 0; offset < rangeCount; offset++) {
      const base = firstBase + ((start + offset) % rangeCount) * idRangeSize;
      if (!used.has(base)) return base;
    }
    throw new PlatformError("SandboxFailed", `There are ${rangeCount} sandboxes already; delete some that are no longer needed.`);
  }
}
