import { PlatformError } from "@sandpiper/core/errors";
import type { GitChange, GitDiff } from "@sandpiper/wire";
import { type RunResult, runToEnd } from "../../shell/run.ts";
import { type CommandRunner, checkPath, failureReason, toScriptCommand } from "../files.ts";
import { changesScript, diffScript, gitCodes } from "./git-script.ts";

/** Largest file of a diff, bytes (as in the reference). */
const maxFileBytes = 2 ** 20;
const maxChanges = 10_000;
/** Changes and repositories after which no more are read. */
const maxRead = 100_000;
const timeoutMs = 30_000;

/**
 * The files below an absolute folder that differ from a reference, by default from the base that
 * `findBase` describes, sorted by path. Includes repositories directly below the folder. Empty
 * outside of repositories (agent-server.md section 8). Throws GitRefused for an unknown reference,
 * GitFailed, and what `exec` throws.
 */
export async function gitChanges(sandbox: CommandRunner, folder: string, ref?: string): Promise<GitChange[]> {
  const result = await runGitScript(sandbox, changesScript, [checkPath(folder), ref ?? ""], 8 * 2 ** 20);
  if (result.code === gitCodes.noRepository) return [];
  if (result.code !== 0) throw toGitError(result, ref);
  return parseChanges(result.stdout.toString());
}

/**
 * The old (see `gitChanges`) and current content of an absolute file; null when missing, empty when
 * binary. Throws GitRefused for an unknown reference, outside of repositories and above 1 MiB,
 * GitFailed, and what `exec` throws.
 */
export async function gitDiff(sandbox: CommandRunner, file: string, ref?: string): Promise<GitDiff> {
  return runDiff(sandbox, diffScript, file, ref ?? "");
}

/** Runs a script with the arguments and output of `diffScript`. Throws as `gitDiff`. */
export async function runDiff(
  sandbox: CommandRunner,
  script: string,
  file: string,
  ref: string,
): Promise<GitDiff> {
  const result = await runGitScript(
    sandbox,
    script,
    [checkPath(file), ref, String(maxFileBytes)],
    3 * 2 ** 20,
  );
  if (result.code === gitCodes.noRepository) throw new PlatformError("PathOutsideRepository", { path: file });
  if (result.code !== 0) throw toGitError(result, ref);
  const end = result.stdout.indexOf("\n");
  const [had, oldSize, has, newSize] = result.stdout.toString("latin1", 0, end).split(" ").map(Number);
  if (Math.max(oldSize!, newSize!) > maxFileBytes)
    throw new PlatformError("FileTooLargeForDiff", { path: file });
  const contents = result.stdout.subarray(end + 1);
  return {
    original: had ? toText(contents.subarray(0, oldSize)) : null,
    modified: has ? toText(contents.subarray(oldSize)) : null,
  };
}

/** Runs a git script. Throws GitFailed after a time limit, and what `exec` throws. */
export async function runGitScript(
  sandbox: CommandRunner,
  script: string,
  args: string[],
  maxOutputBytes: number,
): Promise<RunResult> {
  const result = await runToEnd(sandbox, toScriptCommand(sandbox, script, args), {
    timeoutMs,
    maxOutputBytes,
  });
  if (result.timedOut) throw new PlatformError("GitTimeout", { seconds: timeoutMs / 1000 });
  return result;
}

export function toGitError(
  result: Pick<RunResult, "code" | "stderr">,
  ref: string | undefined,
): PlatformError {
  if (result.code === gitCodes.noGit) return new PlatformError("GitNotInstalled");
  if (result.code === gitCodes.badReference)
    return new PlatformError("UnknownGitReference", { ref: (ref ?? "").slice(0, 200) });
  return new PlatformError("RepositoryUnreadable", { reason: failureReason(result) });
}

const letters: Record<string, GitChange["status"]> = { A: "ADDED", D: "DELETED" };

/**
 * Parses the output of `changesScript`; drops a part that was cut off. The sandbox's git may print
 * anything.
 */
export function parseChanges(text: string): GitChange[] {
  const words = text.split("\0");
  const found = new Map<string, Map<string, GitChange["status"]>>();
  let count = 0;
  for (let at = 0; words[at] === "repository" && count < maxRead; ) {
    const folder = words[at + 1]!.replace(/^\.\/?/, "");
    const prefix = folder === "" ? "" : `${folder}/`;
    const changes = new Map<string, GitChange["status"]>();
    found.set(folder, changes);
    at += 2;
    for (; words[at] && changes.size < maxRead; at += 2) {
      if (words[at + 1]) changes.set(prefix + words[at + 1]!, toStatus(words[at]!));
    }
    at++;
    for (; words[at] && changes.size < maxRead; at++) {
      // A file of the base that is not in the index exists in both.
      const path = prefix + words[at]!;
      changes.set(path, changes.has(path) ? "UPDATED" : "ADDED");
    }
    at++;
    count += changes.size + 1;
  }
  // The inner repository's changes replace the outer one's changes of the same folder.
  const isInner = (folder: string, path: string) => {
    const [top = ""] = path.split("/", 1);
    return folder !== top && path.length > top.length && found.has(top);
  };
  const all = [...found].flatMap(([folder, changes]) =>
    [...changes].filter(([path]) => !isInner(folder, path)),
  );
  return sortChanges(new Map(all));
}

/** The status for a letter of `git diff --name-status`. */
export function toStatus(letter: string): GitChange["status"] {
  return letters[letter[0]!] ?? "UPDATED";
}

/** The changes sorted by path, at most `maxChanges`. */
export function sortChanges(changes: Map<string, GitChange["status"]>): GitChange[] {
  return [...changes]
    .map(([path, status]) => ({ status, path }))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .slice(0, maxChanges);
}

function toText(content: Buffer): string {
  return content.includes(0) ? "" : content.toString();
}
