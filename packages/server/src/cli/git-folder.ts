import { lstat, realpath, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { runGit } from "./git.ts";
import type { Invoker } from "./invoker.ts";
import { readBeginning } from "./read-beginning.ts";
import { createTemporaryFolder } from "./temporary-folder.ts";

/** A part of a copy: the content of a folder, and where it goes, relative to the copy. */
export interface CopyPart {
  from: string;
  to: string;
  /** Default: everything. */
  includes?: (path: string) => boolean;
}

/** The repository of a folder whose `.git` is a file that names a folder elsewhere. */
export interface GitParts {
  /** What makes a repository of its own of the copy; empty where the pointer is not followed. */
  parts: CopyPart[];
  /** For the user: why the repository is not copied. */
  note?: string;
  remove(): Promise<void>;
}

/** Longest file of git that is read here, bytes. */
const maxFileBytes = 1024 * 1024;

/** What git keeps in a repository, by the first name of a path. */
const gitNames =
  /^(?:[A-Z_]+|config|config\.worktree|description|index|packed-refs|shallow|refs|reftable|objects|logs|info|hooks|modules|lfs|rr-cache|branches|rebase-apply|rebase-merge|sequencer)$/;

const isGitName = (path: string) => path === "." || gitNames.test(path.split("/", 1)[0]!);

/**
 * The parts that make a copy of a worktree or a submodule, whose `.git` is a file that names a
 * folder elsewhere, a repository of its own. Without parts, the folder is complete in itself. The
 * folder may be of strangers: its pointer is followed only into a repository that names the folder.
 */
export async function findGitParts(root: string, user: Invoker | undefined): Promise<GitParts | undefined> {
  const pointer = await readText(join(root, ".git"));
  const target = /^gitdir: (.+)/.exec(pointer ?? "")?.[1]?.trim();
  if (target === undefined) return undefined;
  const home = await realpath(root);
  const own = await realpath(resolve(root, target)).catch(() => undefined);
  if (own?.startsWith(home + sep)) return undefined;
  const common =
    own && ((await isWorktreeOf(own, home)) ? dirname(dirname(own)) : await findSubmodule(own, home, user));
  const config = common && (await isRepository(common)) && (await readText(join(common, "config")));
  if (!own || !common || !config)
    return {
      parts: [],
      note: `Not copied: the repository, because .git names ${resolve(root, target)}, which is no repository that names this folder. For a worktree that was moved, run "git worktree repair".`,
      remove: async () => {},
    };
  // In the copy, the work tree is next to the repository.
  const overlay = await createTemporaryFolder("git");
  await writeFile(join(overlay.path, "config"), config.replace(/^[ \t]*worktree[ \t]*=.*\n?/gm, ""));
  return {
    parts: [
      { from: common, to: ".git", includes: isGitName },
      ...(own === common
        ? []
        : [
            {
              from: own,
              to: ".git",
              includes: (path: string) => isGitName(path) && !/^(?:commondir|gitdir|locked)$/.test(path),
            },
          ]),
      { from: overlay.path, to: ".git" },
    ],
    remove: () => overlay.remove(),
  };
}

/** Whether a folder is where a repository keeps what belongs to this worktree alone. */
async function isWorktreeOf(own: string, root: string): Promise<boolean> {
  if (basename(dirname(own)) !== "worktrees") return false;
  const common = (await readText(join(own, "commondir")))?.trim();
  const back = (await readText(join(own, "gitdir")))?.trim();
  if (!common || !back || resolve(own, common) !== dirname(dirname(own))) return false;
  const link = resolve(own, back);
  return basename(link) === ".git" && (await realpath(dirname(link)).catch(() => undefined)) === root;
}

/** The folder itself, if it is the repository of a submodule, or a separate one, of this folder. */
async function findSubmodule(
  own: string,
  root: string,
  user: Invoker | undefined,
): Promise<string | undefined> {
  const config = await readText(join(own, "config"));
  if (config === undefined) return undefined;
  const read = ["config", "--file", "-", "--no-includes", "--get", "core.worktree"];
  const value = await runGit(read, { cwd: "/", input: [config], user }).catch(() => undefined);
  const tree = value?.toString().trim();
  if (!tree) return undefined;
  return (await realpath(resolve(own, tree)).catch(() => undefined)) === root ? own : undefined;
}

/** Whether git would accept a folder as a repository. */
async function isRepository(folder: string): Promise<boolean> {
  const isFolder = (name: string) =>
    lstat(join(folder, name)).then(
      (found) => found.isDirectory(),
      () => false,
    );
  const head = await readText(join(folder, "HEAD"));
  if (!/^(?:ref: refs\/|[0-9a-f]{40})/.test(head ?? "")) return false;
  return (await isFolder("objects")) && (await isFolder("refs"));
}

/** The text of a regular file, of a limited length; undefined when there is no such file. */
async function readText(path: string): Promise<string | undefined> {
  const beginning = await readBeginning(path, maxFileBytes);
  return beginning?.isWhole ? beginning.bytes.toString() : undefined;
}
