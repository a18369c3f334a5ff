import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

/**
 * Creates the data folder and its parents (mode 0711: sandboxes pass through it). Throws
 * ConfigInvalid when it cannot. Creates one folder at a time because Node's recursive mkdir hangs
 * in places such as /proc.
 */
export async function createDataFolder(path: string): Promise<void> {
  try {
    await makeFolder(path);
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const reason = code === "EEXIST" || code === "ENOTDIR" ? "there is a file in its place" : message;
    throw new PlatformError("DataFolderUnusable", { path, reason }, { cause: error });
  }
}

async function makeFolder(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory()) return;
  if (!found && dirname(path) !== path) await makeFolder(dirname(path));
  await mkdir(path, { mode: 0o711 });
}
