import { type Dirent, readdirSync, rmSync } from "node:fs";
import { PlatformError } from "@sandpiper/core/errors";
import { runCommand } from "../container/runtime.ts";

/** A tree up to this many entries is removed at once; that takes less than a process would. */
const fewEntries = 300;
const fewLevels = 12;
const timeoutMs = 600_000;

/** Removes folders with everything in them; links are not followed. Nothing may change below them any more. Throws SandboxFailed. */
export async function removeTrees(paths: string[]): Promise<void> {
  const large: string[] = [];
  for (const path of paths) {
    if (isSmall(path)) rmSync(path, { recursive: true, force: true });
    else large.push(path);
  }
  if (large.length === 0) return;
  // rm copes with names that are not UTF-8, with any depth, and does not keep this process waiting.
  const result = await runCommand(["rm", "-rf", "--one-file-system", "--", ...large], { timeoutMs });
  if (result.code !== 0)
    throw new PlatformError("SandboxFailed", `Files of a sandbox could not be removed: ${result.reason}.`);
}

/** Whether a tree has few entries, all with plain names. */
function isSmall(path: string): boolean {
  let left = fewEntries;
  const walk = (folder: string, level: number): boolean => {
    let entries: Dirent[];
    try {
      entries = readdirSync(folder, { withFileTypes: true });
    } catch (error) {
      return (error as NodeJS.ErrnoException).code === "ENOENT";
    }
    left -= entries.length;
    return (
      left >= 0 &&
      level < fewLevels &&
      entries.every(
        (entry) =>
          !entry.name.includes("\ufffd") &&
          (!entry.isDirectory() || walk(`${folder}/${entry.name}`, level + 1)),
      )
    );
  };
  return walk(path, 0);
}
