import { accessSync, chmodSync, constants, lstatSync, mkdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

const tmpfsMagic = 0x0102_1994;

/**
 * Folder of an installation for what ends with the machine: the runtime's state, and what a running sandbox needs beside its files.
 * It lies on a tmpfs, where a file costs microseconds, and everybody may pass through it, so that the root of a sandbox gets to its mount point.
 * `name` tells installations apart. Throws SandboxFailed where there is no such place.
 */
export function volatileFolder(name: string): string {
  for (const place of ["/run", "/dev/shm"]) {
    try {
      if (statfsSync(place).type !== tmpfsMagic) continue;
      accessSync(place, constants.W_OK);
      const folder = join(place, name);
      mkdirSync(folder, { recursive: true });
      const facts = lstatSync(folder);
      // Where everybody may write, another user can have been first.
      if (!facts.isDirectory() || facts.uid !== process.getuid!() || (facts.mode & 0o022) !== 0) continue;
      chmodSync(folder, 0o711);
      return folder;
    } catch {
      // Not there, or not for this user.
    }
  }
  throw new PlatformError(
    "SandboxFailed",
    `Sandboxes need a tmpfs that the server may write: mount one at /dev/shm, or remove a foreign ${name} there.`,
  );
}
