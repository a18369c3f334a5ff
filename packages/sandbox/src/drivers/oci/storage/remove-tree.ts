import { type Dirent, readdirSync, rmSync } from "node:fs";
import { PlatformError } from "@sandpiper/core/errors";
import { runProgram } from "../../common/run-program.ts";

/** Up to this size removing a tree here takes less time than the start of a process. */
const maxEntries = 300;
const maxLevels = 12;
const timeoutMs = 600_000;

/** Removes trees that nothing changes any more; links are not followed. Throws SandboxFailed. */
export async function removeTrees(paths: string[]): Promise<void> {
  const large: string[] = [];
  for (const path of paths) {
    if (isSmall(path)) rmSync(path, { recursive: true, force: true });
    else large.push(path);
  }
  if (large.length === 0) return;
  // rm handles any depth and names that are not UTF-8, and does not block this process.
  const { code, reason } = await runProgram(["rm", "-rf", "--one-file-system", "--", ...large], {
    timeoutMs,
  });
  if (code !== 0) throw new PlatformError("SandboxFilesNotRemoved", { reason });
}

/** True when a tree has few entries, all with UTF-8 names. */
function isSmall(path: string): boolean {
  let left = maxEntries;
  const walk = (folder: string, level: number): boolean => {
    let entries: Dirent[];
    try {
      entries = readdirSync(folder, { withFileTypes: true });
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ENOENT";
    }
    left -= entries.length;
    if (left < 0 || level >= maxLevels) return false;
    return entries.every(
      (entry) =>
        !entry.name.includes("\ufffd") &&
        (!entry.isDirectory() || walk(`${folder}/${entry.name}`, level + 1)),
    );
  };
  return walk(path, 0);
}
