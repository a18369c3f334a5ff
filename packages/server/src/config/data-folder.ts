import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";

/**
 * Makes the data folder and what is missing above it. Sandboxes get through it to their root
 * folders, so others may pass it, not list it. Throws PlatformError ConfigInvalid with one sentence
 * when it cannot be made. One folder at a time: a recursive mkdir of Node does not come back from
 * places such as /proc.
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
