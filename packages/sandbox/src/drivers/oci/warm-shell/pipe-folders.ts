import { chmodSync, mkdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { insideBusybox } from "../../common/busybox.ts";
import { openRuntimeDir } from "../storage/runtime-dir.ts";

/**
 * One folder per sandbox for the named pipes of its commands, bound read-only into it. A sandbox
 * may pass through its folder, but not list or change it.
 */
export class PipeFolders {
  readonly #folder: string;

  /** `installation` is its unique name on this machine. Throws SandboxFailed without a tmpfs. */
  constructor(installation: string) {
    this.#folder = openRuntimeDir(installation);
  }

  path(id: string): string {
    return join(this.#folder, id);
  }

  /** Creates the folder of a sandbox before a start, with the mount point of busybox. */
  make(id: string): string {
    const folder = this.path(id);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder);
    chmodSync(folder, 0o711);
    writeFileSync(join(folder, basename(insideBusybox)), "");
    return folder;
  }

  /** Removing an unknown folder is fine. */
  remove(id: string): void {
    rmSync(this.path(id), { recursive: true, force: true });
  }

  /**
   * Removes the folder of the installation if no sandbox is left in it. No other process uses the
   * folder at that time.
   */
  removeFolder(): void {
    try {
      rmdirSync(this.#folder);
    } catch {
      // The removal fails because a sandbox is left in the folder.
    }
  }
}
