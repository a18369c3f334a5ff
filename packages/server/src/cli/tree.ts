import type { Stats } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { create } from "tar";
import { CliError } from "./errors.ts";
import { inertLine } from "./inert.ts";
import { hasHoles, packSparse } from "./pack-sparse.ts";

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

/** Bytes at the end of a tar stream. */
const endBytes = 1_024;

/**
 * Packs files, folders and symbolic links (never followed), with git's folders, as a tar stream.
 * It leaves out sockets, pipes, devices, owners, and paths that `includes` refuses. Files with
 * large holes come last, without their holes.
 */
export function packFolder(root: string, includes: (path: string) => boolean = () => true): Readable {
  const sparse: string[] = [];
  const filter = (path: string, entry: unknown) => {
    const stats = entry as Stats;
    if (!stats.isFile() && !stats.isDirectory() && !stats.isSymbolicLink()) return false;
    if (!includes(path.replace(/^\.\/|\/$/g, ""))) return false;
    if (!hasHoles(stats)) return true;
    sparse.push(path);
    return false;
  };
  async function* pack(): AsyncGenerator<Buffer> {
    yield* withoutEnd(create({ cwd: root, portable: true, filter }, ["."]));
    for (const path of sparse) yield* packSparse(join(root, path), path);
    yield Buffer.alloc(endBytes);
  }
  return Readable.from(pack(), { objectMode: false });
}

async function* withoutEnd(tar: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let held: Buffer = Buffer.alloc(0);
  for await (const chunk of tar) {
    const all = Buffer.concat([held, chunk]);
    const end = Math.max(0, all.length - endBytes);
    if (end > 0) yield all.subarray(0, end);
    held = all.subarray(end);
  }
}
