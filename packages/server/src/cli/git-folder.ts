import { readFile, stat, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { createTemporaryFolder } from "./temporary-folder.ts";

/** A part of a copy: the content of a folder, and where it goes, relative to the copy. */
export interface CopyPart {
  from: string;
  to: string;
  /** Default: everything. */
  includes?: (path: string) => boolean;
}

/** The nearest folder at or above a path that has a `.git`; undefined when there is none. */
export async function findRepository(folder: string): Promise<string | undefined> {
  for (let at = resolve(folder); ; at = dirname(at)) {
    if (await stat(join(at, ".git")).catch(() => undefined)) return at;
    if (at === dirname(at)) return undefined;
  }
}

/**
 * The parts that make a copy of a worktree or a submodule, whose `.git` is a file that names a
 * folder elsewhere, a repository of its own. Without parts, the folder is complete in itself.
 */
export async function findGitParts(
  root: string,
): Promise<{ parts: CopyPart[]; remove(): Promise<void> } | undefined> {
  const pointer = await readText(join(root, ".git"));
  const target = /^gitdir: (.+)/.exec(pointer ?? "")?.[1]?.trim();
  if (target === undefined) return undefined;
  const own = resolve(root, target);
  if (!relative(root, own).startsWith("..")) return undefined;
  const commonName = (await readText(join(own, "commondir")))?.trim();
  const common = commonName === undefined ? own : resolve(own, commonName);
  const config = await readText(join(common, "config"));
  if (config === undefined) return undefined;
  // In the copy, the work tree is next to the repository.
  const overlay = await createTemporaryFolder("git");
  await writeFile(join(overlay.path, "config"), config.replace(/^[ \t]*worktree[ \t]*=.*\n?/gm, ""));
  return {
    parts: [
      { from: common, to: ".git", includes: (path) => !/^worktrees(?:\/|$)/.test(path) },
      ...(own === common
        ? []
        : [
            {
              from: own,
              to: ".git",
              includes: (path: string) => !/^(?:commondir|gitdir|locked)$/.test(path),
            },
          ]),
      { from: overlay.path, to: ".git" },
    ],
    remove: () => overlay.remove(),
  };
}

/** The text of a file; undefined when there is no such file. */
function readText(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(() => undefined);
}
