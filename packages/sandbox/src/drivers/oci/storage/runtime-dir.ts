import { accessSync, chmodSync, constants, lstatSync, mkdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

const tmpfsMagic = 0x0102_1994;

/**
 * Creates the folder of an installation (`name`) for files that end with the machine. It is on a
 * tmpfs, where a file costs microseconds, and all users may pass through it, so that the root of a
 * sandbox reaches its mount point. Throws SandboxFailed when there is no suitable tmpfs.
 */
export function openRuntimeDir(name: string): string {
  for (const parent of ["/run", "/dev/shm"]) {
    try {
      if (statfsSync(parent).type !== tmpfsMagic) continue;
      accessSync(parent, constants.W_OK);
      const folder = join(parent, name);
      mkdirSync(folder, { recursive: true });
      const stat = lstatSync(folder);
      // In a world-writable folder another user may have created it first.
      if (!stat.isDirectory() || stat.uid !== process.getuid!() || (stat.mode & 0o022) !== 0) continue;
      chmodSync(folder, 0o711);
      return folder;
    } catch {
      // It does not exist, or this user may not use it.
    }
  }
  throw new PlatformError("TmpfsMissing", { name });
}
