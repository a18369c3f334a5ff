import type { Stats } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";

/** Whether a path has a component that git takes for its own folder. */
export function insideGitFolder(path: string): boolean {
  return path.split("/").some((part) => part.toLowerCase() === ".git");
}

/**
 * Regular files and symbolic links below a folder, as sorted relative paths, without git's own
 * folders.
 */
export async function listFiles(root: string): Promise<string[]> {
  const found: string[] = [];
  const visit = async (folder: string): Promise<void> => {
    for (const entry of await readdir(join(root, folder), { withFileTypes: true })) {
      const path = folder ? `${folder}/${entry.name}` : entry.name;
      if (insideGitFolder(entry.name)) continue;
      if (entry.isDirectory()) await visit(path);
      else if (entry.isFile() || entry.isSymbolicLink()) found.push(path);
    }
  };
  await visit("");
  return found.sort();
}

/**
 * A folder as a tar stream, read as it is sent: files, folders and symbolic links (never followed),
 * git's folders included. Sockets, pipes and devices are left out, and so are owners.
 */
export function packFolder(root: string): Readable {
  const filter = (_path: string, entry: unknown) => {
    const stats = entry as Stats;
    return stats.isFile() || stats.isDirectory() || stats.isSymbolicLink();
  };
  return Readable.from(create({ cwd: root, portable: true, filter }, ["."]));
}
