import { accessSync, chmodSync, constants, lstatSync, mkdirSync, readdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";

const tmpfsMagic = 0x0102_1994;

/** Where a sandbox finds its folder, and in it the program. */
export const insideFolder = "/run/sandpiper";
export const insideBusybox = `${insideFolder}/busybox`;

/**
 * One folder a sandbox for the named pipes of its commands, bound read-only into it. They lie on a tmpfs, where an inode costs microseconds.
 * A sandbox may pass through its folder, and neither list nor change it.
 */
export class ResidentFolders {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** `installation` tells installations on one machine apart. Undefined where no tmpfs can be used. */
  static open(installation: string): ResidentFolders | undefined {
    const folder = tmpfsFolder(installation);
    return folder === undefined ? undefined : new ResidentFolders(folder);
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

/** A folder of that name on a tmpfs that belongs to this server; anybody could have made one of that name where all may write. */
function tmpfsFolder(name: string): string | undefined {
  for (const place of ["/run", process.env.XDG_RUNTIME_DIR, "/dev/shm"]) {
    if (place === undefined) continue;
    try {
      if (statfsSync(place).type !== tmpfsMagic) continue;
      accessSync(place, constants.W_OK);
      const folder = join(place, name);
      mkdirSync(folder, { recursive: true });
      const facts = lstatSync(folder);
      if (facts.isDirectory() && facts.uid === process.getuid!() && (facts.mode & 0o022) === 0) {
        chmodSync(folder, 0o711);
        return folder;
      }
    } catch {
      // Not there, or another's.
    }
  }
  return undefined;
}
