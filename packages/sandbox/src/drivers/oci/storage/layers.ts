import { randomInt } from "node:crypto";
import { chmodSync, existsSync, lchownSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { FolderMembers } from "../../common/sharing/folder-members.ts";

/**
 * The folders that root filesystems are stacked from: `layers/<name>`, and `work/<name>` for a
 * writable one. Only the sandbox that has a layer on top writes to it; a snapshot makes it
 * read-only by putting a new layer above. So files never move, and the records alone decide what a
 * layer is. Names are short, because the kernel takes only 4 KB of them for one root.
 */
export class Layers {
  readonly folder: string;
  readonly #work: string;
  readonly #trash: string;
  readonly #idBase: number;
  readonly #members: FolderMembers;

  /** `dir` is the driver's folder, `idBase` the host id of every sandbox's root. */
  constructor(dir: string, idBase: number, members: FolderMembers) {
    this.#members = members;
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

  /** Names of all layers and of all work folders. */
  names(): string[] {
    return [...new Set([...readdirSync(this.folder), ...readdirSync(this.#work)])];
  }

  /** Creates an empty writable layer. Throws what the filesystem throws. */
  make(): string {
    const name = this.#unusedName();
    mkdirSync(this.path(name), { mode: 0o755 });
    chmodSync(this.path(name), 0o755);
    // The root folder of a sandbox has the owner of its uppermost layer.
    lchownSync(this.path(name), this.#idBase, this.#idBase);
    mkdirSync(this.workPath(name), { mode: 0o700 });
    return name;
  }

  /** Makes a folder a layer by a rename. Throws what the filesystem throws. */
  adopt(folder: string, { isWritable }: { isWritable: boolean }): string {
    const name = this.#unusedName();
    if (isWritable) mkdirSync(this.workPath(name), { mode: 0o700 });
    renameSync(folder, this.path(name));
    return name;
  }

  /** Called for a layer that is read-only from now on. */
  seal(name: string): void {
    rmSync(this.workPath(name), { recursive: true, force: true });
  }

  /** Makes a layer writable again whose snapshot was interrupted. */
  unseal(name: string): void {
    mkdirSync(this.workPath(name), { recursive: true, mode: 0o700 });
  }

  /** Moves layers to the trash and returns the folders to remove. A missing layer is fine. */
  discard(names: string[]): string[] {
    const discarded: string[] = [];
    for (const name of names) {
      for (const path of [this.path(name), this.workPath(name)]) {
        const target = this.#trashPath();
        try {
          renameSync(path, target);
          discarded.push(target);
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        }
      }
    }
    return discarded;
  }

  /** Lists discarded folders of this process and of ended ones, which this process takes over. */
  trash(): string[] {
    return readdirSync(this.#trash).flatMap((name) => {
      const path = join(this.#trash, name);
      const maker = name.split(".")[0]!;
      if (maker === this.#members.name) return [path];
      if (this.#members.isLiving(maker)) return [];
      const target = this.#trashPath();
      try {
        renameSync(path, target);
        return [target];
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
        return [];
      }
    });
  }

  #trashPath(): string {
    return join(this.#trash, `${this.#members.name}.${randomInt(2 ** 47).toString(36)}`);
  }

  #unusedName(): string {
    for (;;) {
      const name = randomInt(2 ** 40).toString(36);
      if (!this.exists(name)) return name;
    }
  }
}
