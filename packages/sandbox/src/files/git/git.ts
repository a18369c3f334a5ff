import { PlatformError } from "@sandpiper/core/errors";
import type { GitChange, GitDiff } from "@sandpiper/wire";
import { type RunResult, runToEnd } from "../../shell/run.ts";
import { type CommandRunner, checkPath, failureReason, toScriptCommand } from "../files.ts";
import { changesScript, diffScript, gitCodes } from "./git-script.ts";

/** Largest file of which a difference is shown, bytes (as in the reference). */
const maxFileBytes = 2 ** 20;
/** Changes that are told at most. */
const maxChanges = 10_000;
/** Time for the sandbox's git, ms. */
const timeoutMs = 30_000;

/**
 * The files below an absolute folder that differ from a reference, sorted by path; without one from where the work began: the upstream branch, else the
 * default one of `origin`, else nothing at all. Repositories directly below the folder count too. Empty where there is no repository (agent-server.md
 * section 8). Throws GitRefused for an unknown reference, GitFailed, and what `exec` throws.
 */
export async function gitChanges(sandbox: CommandRunner, folder: string, ref?: string): Promise<GitChange[]> {
  const result = await runGit(sandbox, changesScript, [checkPath(folder), ref ?? ""], 8 * 2 ** 20);
  if (result.code === gitCodes.noRepository) return [];
  if (result.code !== 0) throw toGitError(result, ref);
  return parseChanges(result.stdout.toString());
}

/**
 * An absolute file before (see `gitChanges`) and now; null where there is none, empty text for what is no text.
 * Throws GitRefused for an unknown reference, a file outside of any repository and one above 1 MiB, GitFailed, and what `exec` throws.
 */
export async function gitDiff(sandbox: CommandRunner, file: string, ref?: string): Promise<GitDiff> {
  return runDiff(sandbox, diffScript, file, ref ?? "");
}

/** A file before and after: what a script tells that takes its path, a reference and the bytes that are read. Throws as `gitDiff`. */
export async function runDiff(
  sandbox: CommandRunner,
  script: string,
  file: string,
  ref: string,
): Promise<GitDiff> {
  const result = await runGit(sandbox, script, [checkPath(file), ref, String(maxFileBytes)], 3 * 2 ** 20);
  if (result.code === gitCodes.noRepository)
    throw new PlatformError("GitRefused", `${file} is not in a git repository.`);
  if (result.code !== 0) throw toGitError(result, ref);
  const end = result.stdout.indexOf("\n");
  const [had, oldSize, has, newSize] = result.stdout.toString("latin1", 0, end).split(" ").map(Number);
  if (Math.max(oldSize!, newSize!) > maxFileBytes) {
    throw new PlatformError("GitRefused", `${file} is larger than 1 MiB: no difference is shown.`);
  }
  const contents = result.stdout.subarray(end + 1);
  return {
    original: had ? toText(contents.subarray(0, oldSize)) : null,
    modified: has ? toText(contents.subarray(oldSize)) : null,
  };
}

/** Runs a git script to its end, of which at most `maxOutputBytes` are kept. Throws GitFailed when it takes too long, and what `exec` throws. */
export async function runGit(
  sandbox: CommandRunner,
  script: string,
  args: string[],
  maxOutputBytes: number,
): Promise<RunResult> {
  const result = await runToEnd(sandbox, toScriptCommand(sandbox, script, args), {
    timeoutMs,
    maxOutputBytes,
  });
  if (result.timedOut)
    throw new PlatformError("GitFailed", `git did not answer within ${timeoutMs / 1000} s.`);
  return result;
}

/** The error of a script that git ended. */
export function toGitError(
  result: Pick<RunResult, "code" | "stderr">,
  ref: string | undefined,
): PlatformError {
  if (result.code === gitCodes.noGit)
    return new PlatformError("GitFailed", "There is no git in the sandbox: use an image that has it.");
  if (result.code === gitCodes.badReference)
    return new PlatformError("GitRefused", `The repository has no reference ${(ref ?? "").slice(0, 200)}.`);
  return new PlatformError("GitFailed", `git could not read the repository: ${failureReason(result)}.`);
}

const letters: Record<string, GitChange["status"]> = { A: "ADDED", D: "DELETED" };

/** Changes out of what `changesScript` writes; a part that was cut off is left out. */
function parseChanges(text: string): GitChange[] {
  const words = text.split("\0");
  const changes = new Map<string, GitChange["status"]>();
  for (let at = 0; words[at] === "repository"; ) {
    const folder = words[at + 1]!.replace(/^\.\/?/, "");
    const prefix = folder === "" ? "" : `${folder}/`;
    // What the outer repository says about an inner one is not meant.
    for (const path of changes.keys()) if (prefix && path.startsWith(prefix)) changes.delete(path);
    at += 2;
    for (; words[at]; at += 2) {
      if (words[at + 1]) changes.set(prefix + words[at + 1]!, toStatus(words[at]!));
    }
    at++;
    for (; words[at]; at++) {
      // Known to the compared state, not to the index: the file is there in both.
      const path = prefix + words[at]!;
      changes.set(path, changes.has(path) ? "UPDATED" : "ADDED");
    }
    at++;
  }
  return sortChanges(changes);
}

/** What a letter of `git diff --name-status` says. */
export function toStatus(letter: string): GitChange["status"] {
  return letters[letter[0]!] ?? "UPDATED";
}

/** The changes of these paths as they are told: sorted, and no more than are told at all. */
export function sortChanges(changes: Map<string, GitChange["status"]>): GitChange[] {
  return [...changes]
    .map(([path, status]) => ({ status, path }))
    .sort((a, b) => (a.path < b.path ? -1 : 1))
    .slice(0, maxChanges);
}

function toText(content: Buffer): string {
  return content.includes(0) ? "" : content.toString();
}
