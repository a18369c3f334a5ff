import type { Stats } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";
import { CliError } from "./errors.ts";
import { inertLine } from "./inert.ts";

/** Whether a path is in a folder named `.git`. */
export function insideGitFolder(path: string): boolean {
  return path.split("/").some((part) => part.toLowerCase() === ".git");
}

/** Files of rules that git reads in each folder of a work tree. */
const ruleFiles = new Set([".gitignore", ".gitattributes"]);

/**
 * Regular files and symbolic links below a folder, as sorted relative paths, without git's own
 * folders and what `includes` refuses. Throws CliError for a file of rules that is a pipe, a
 * socket or a device: git would wait for it.
 */
export async function listFiles(
  root: string,
  includes: (path: string) => boolean = () => true,
): Promise<string[]> {
  const found: string[] = [];
  const visit = async (folder: string): Promise<void> => {
    for (const entry of await readdir(join(root, folder), { withFileTypes: true })) {
      const path = folder ? `${folder}/${entry.name}` : entry.name;
      if (insideGitFolder(entry.name) || !includes(path)) continue;
      if (entry.isDirectory()) await visit(path);
      else if (entry.isFile() || entry.isSymbolicLink()) found.push(path);
      else if (ruleFiles.has(entry.name.toLowerCase()))
        throw new CliError(
          `${inertLine(join(root, path))} is no regular file, and git would wait for it: remove it, then run this again.`,
        );
    }
  };
  await visit("");
  return found.sort();
}

/**
 * Packs files, folders and symbolic links (never followed), with git's folders, as a tar stream.
 * Sockets, pipes, devices and owners are left out, and paths that `includes` refuses.
 */
export function packFolder(root: string, includes: (path: string) => boolean = () => true): Readable {
  const filter = (path: string, entry: unknown) => {
    const stats = entry as Stats;
    if (!stats.isFile() && !stats.isDirectory() && !stats.isSymbolicLink()) return false;
    return includes(path.replace(/^\.\/|\/$/g, ""));
  };
  return Readable.from(create({ cwd: root, portable: true, filter }, ["."]));
}
