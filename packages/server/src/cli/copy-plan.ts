import { existsSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { basename } from "node:path";
import { CliError, exitCodes } from "./errors.ts";
import { type FolderScan, scanFolder } from "./folder-scan.ts";
import { askForeignGit } from "./foreign-git.ts";
import { inertLine } from "./inert.ts";
import type { Invoker } from "./invoker.ts";
import { formatBytes } from "./style.ts";

export interface CopyOptions {
  /** Copy secret files and home folders, too. */
  secrets: boolean;
  /** Limit of a copy, bytes. */
  limit: number;
  user: Invoker | undefined;
  signal?: AbortSignal | undefined;
  /** Gets what is done now. */
  onStep?: (text: string) => void;
}

/** What of a folder is copied. */
export interface CopyPlan {
  files: number;
  bytes: number;
  /** Whether a relative path is copied. */
  includes(path: string): boolean;
  /** Relative paths of files and folders that are left out because they may hold secrets. */
  secrets: readonly string[];
  /** Relative paths of Python environments that are copied. */
  environments: readonly string[];
  /** Relative paths of folders of git that are copied. */
  repositories: readonly string[];
  /** For the user: what else is left out, and why. */
  notes: string[];
}

/** Bytes of a folder that are copied without a question; below the disk space of a sandbox. */
export const defaultCopyLimit = 5 * 1024 ** 3;

/** Paths of a note before it says only how many more there are. */
const maxNamed = 5;

/** Names of folders that programs make again, where there is no git to say so. */
const generated = /^(?:node_modules|\.venv|venv|target|dist|build|__pycache__|\.tox|\.cache|\.gradle)$/;

/**
 * Decides what of a folder is copied into a sandbox: everything except secret files that git does
 * not track, and, only where the limit demands it, the largest ignored folders. Throws CliError for
 * a home folder and for a folder over the limit.
 */
export async function planCopy(folder: string, options: CopyOptions): Promise<CopyPlan> {
  const { secrets, user, signal, onStep, limit } = options;
  if (!secrets && isHome(folder, user))
    throw new CliError(
      `${folder} is a home folder with keys and passwords: choose a project with --dir, or copy it all with --secrets.`,
      { exitCode: exitCodes.usage },
    );
  const git = (...args: string[]) =>
    askForeignGit(["ls-files", "-z", ...args], {
      cwd: folder,
      user,
      signal,
      accept: [128, 129],
    }).then((list) => list.toString().split("\0").filter(Boolean));
  const tracked = new Set(await git("--cached"));
  const listed = await git("--others", "--ignored", "--exclude-standard", "--directory");
  const scan = await scanFolder(folder, {
    tracked: secrets ? everything : tracked,
    ignored: new Set(listed.filter((path) => path.endsWith("/")).map((path) => path.slice(0, -1))),
    ...(onStep && {
      onProgress: (files, bytes) =>
        onStep(`reads the folder: ${files.toLocaleString("en-US")} files, ${formatBytes(bytes)}`),
    }),
    signal,
  });
  return choose(folder, scan, {
    limit,
    ignored: listed,
    hasGit: tracked.size > 0 || existsSync(`${folder}/.git`),
  });
}

/** Where secret files are copied, every file counts as known to git. */
const everything: ReadonlySet<string> = Object.assign(new Set<string>(), { has: () => true });

function choose(
  folder: string,
  { files, bytes, sizes, secrets, environments, repositories }: FolderScan,
  { limit, ignored, hasGit }: { limit: number; ignored: readonly string[]; hasGit: boolean },
): CopyPlan {
  const bySize = [...sizes].sort(([, a], [, b]) => b - a);
  const spare = new Set(ignored.map((path) => path.replace(/\/$/, "")));
  const isSpare = (path: string) => (hasGit ? spare.has(path) : generated.test(basename(path)));
  const large: string[] = [];
  let rest = bytes;
  for (const [path, size] of bySize) {
    if (rest <= limit) break;
    if (!isSpare(path)) continue;
    large.push(path);
    rest -= size;
  }
  if (rest > limit) {
    const largest = bySize.slice(0, 3).map(([path, size]) => `${inertLine(path)} (${formatBytes(size)})`);
    throw new CliError(
      `${folder} has ${formatBytes(rest)} in ${files.toLocaleString("en-US")} files, and at most ${formatBytes(limit)} are copied. The largest: ${largest.join(", ")}. Choose a subfolder with --dir, or a higher limit with --copy-limit.`,
      { exitCode: exitCodes.usage },
    );
  }
  const out = new Set([...secrets, ...large]);
  const includes = (path: string) => {
    for (let at = path; ; at = at.slice(0, at.lastIndexOf("/"))) {
      if (out.has(at)) return false;
      if (!at.includes("/")) return true;
    }
  };
  return {
    files,
    bytes: rest,
    secrets,
    notes: [
      ...(large.length > 0
        ? [
            `Not copied, because the folder is larger than ${formatBytes(limit)}: ${listPaths(large)}. --copy-limit copies more.`,
          ]
        : []),
    ],
    environments: environments.filter(includes),
    repositories: repositories.filter(includes),
    includes,
  };
}

/** The first paths, and how many more there are. */
export function listPaths(paths: readonly string[]): string {
  const named = paths.slice(0, maxNamed).map(inertLine).join(", ");
  return paths.length > maxNamed ? `${named} and ${paths.length - maxNamed} more` : named;
}

/** Whether a folder is the home of the user, or holds homes. */
export function isHome(folder: string, user: Invoker | undefined): boolean {
  const homes = [user?.home ?? homedir(), "/", "/root", "/home"];
  const real = (path: string) => {
    try {
      return realpathSync(path);
    } catch {
      return path;
    }
  };
  return homes.some((home) => real(home) === real(folder));
}
