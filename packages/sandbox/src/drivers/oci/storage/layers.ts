import { randomInt } from "node:crypto";
import { chmodSync, existsSync, lchownSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";

/**
 * The folders that root filesystems are stacked from: `layers/<name>`, and `work/<name>`, which an overlay needs beside a writable one.
 * A layer is written by the one sandbox that has it uppermost; a snapshot makes it read-only by giving the sandbox a new one above.
 * So the files of a sandbox never move, and what the records name decides alone what a layer is.
 * Names are short: the kernel takes 4 KB of them for one root.
 */
export class Layers {
  readonly folder: string;
  readonly #work: string;
  readonly #trash: string;
  readonly #idBase: number;

  /** `dir` is the driver's folder, `idBase` the host id of every sandbox's root. */
  constructor(dir: string, idBase: number) {
    this.folder = join(dir, "layers");
    this.#work = join(dir, "work");
    this.#trash = join(dir, "trash");
    this.#idBase = idBase;
    for (const folder of [this.folder, this.#work, this.#trash])
      mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  workPath(name: string): string {
    return join(this.#work, name);
  }

  exists(name: string): boolean {
    return existsSync(this.path(name));
  }

  /** Names of all layers, and of all folders beside them that have none. */
  names(): string[] {
    return [...new Set([...readdirSync(this.folder), ...readdirSync(this.#work)])];
  }

  /** Makes an empty writable layer. Throws what the filesystem throws. */
  make(): string {
    const name = this.#freeName();
    mkdirSync(this.path(name), { mode: 0o755 });
    chmodSync(this.path(name), 0o755);
    // The root folder of a sandbox has the owner of its uppermost layer.
    lchownSync(this.path(name), this.#idBase, this.#idBase);
    mkdirSync(this.workPath(name), { mode: 0o700 });
    return name;
  }

  /** To be called for a layer that is read-only from now on. */
  seal(name: string): void {
    rmSync(this.workPath(name), { recursive: true, force: true });
  }

  /** Makes a layer writable again that was to be sealed. */
  unseal(name: string): void {
    mkdirSync(this.workPath(name), { recursive: true, mode: 0o700 });
  }

  /** Takes layers out of use at once and gives the folders that hold what is left of them. A missing one is fine. */
  discard(names: string[]): string[] {
    const left: string[] = [];
    for (const name of names) {
      for (const path of [this.path(name), this.workPath(name)]) {
        const target = join(this.#trash, randomInt(2 ** 47).toString(36));
        try {
          renameSync(path, target);
          left.push(target);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        }
      }
    }
    return left;
  }

  /** What an earlier process took out of use and did not get to remove. */
  trash(): string[] {
    return readdirSync(this.#trash).map((name) => join(this.#trash, name));
  }

  #freeName(): string {
    for (;;) {
      const name = randomInt(2 ** 40).toString(36);
      if (!this.exists(name)) return name;
    }
  }
}
