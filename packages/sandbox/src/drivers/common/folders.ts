import { chmodSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { volatileFolder } from "../oci/storage/runtime-dir.ts";

/** Where a sandbox finds its folder, and in it the program. */
export const insideFolder = "/run/sandpiper";
export const insideBusybox = `${insideFolder}/busybox`;

/**
 * One folder a sandbox for the named pipes of its commands, bound read-only into it. They lie on a tmpfs, where an inode costs microseconds.
 * A sandbox may pass through its folder, and neither list nor change it.
 */
export class ResidentFolders {
  readonly #folder: string;

  /** `installation` tells installations on one machine apart. Throws SandboxFailed where there is no tmpfs. */
  constructor(installation: string) {
    this.#folder = volatileFolder(installation);
  }

  of(id: string): string {
    return join(this.#folder, id);
  }

  /** Makes the folder of a sandbox that is about to start, empty but for the mount point of the program. */
  make(id: string): string {
    const folder = this.of(id);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    chmodSync(folder, 0o711);
    writeFileSync(join(folder, basename(insideBusybox)), "");
    return folder;
  }

  /** Removing an unknown one is fine. */
  remove(id: string): void {
    rmSync(this.of(id), { recursive: true, force: true });
  }

  /** Removes the folder of the installation if no sandbox is left in it. */
  close(): void {
    if (readdirSync(this.#folder).length === 0) rmSync(this.#folder, { recursive: true, force: true });
  }
}
