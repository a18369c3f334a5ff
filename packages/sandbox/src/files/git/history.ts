import { PlatformError } from "@sandpiper/core/errors";
import type { GitChange, GitCommit, GitDiff } from "@sandpiper/wire";
import { type CommandRunner, checkPath } from "../files.ts";
import { runDiff, runGitScript, sortChanges, toGitError, toStatus } from "./git.ts";
import { gitCodes } from "./git-script.ts";
import { commitChangesScript, commitDiffScript, commitsScript } from "./history-script.ts";

/** Limit of a list of commits, bytes: subjects have any length. */
const maxListBytes = 2 * 2 ** 20;
/** Limit of a subject and a name, characters. */
const maxText = 1_000;

/**
 * The newest commits of the repository of an absolute folder, at most `limit`. Empty outside of
 * repositories and without commits (agent-server.md section 8). Throws GitFailed, and what `exec`
 * throws.
 */
export async function gitCommits(
  sandbox: CommandRunner,
  folder: string,
  limit: number,
): Promise<{ commits: GitCommit[]; hasMore: boolean }> {
  const result = await runGitScript(
    sandbox,
    commitsScript,
    [checkPath(folder), String(limit + 1)],
    maxListBytes,
  );
  if (result.code === gitCodes.noRepository) return { commits: [], hasMore: false };
  if (result.code !== 0) throw toGitError(result, undefined);
  const commits = parseCommits(result.stdout.toString(), result.truncated);
  return { commits: commits.slice(0, limit), hasMore: commits.length > limit || result.truncated };
}

/** Parses the output of `commitsScript`. */
export function parseCommits(text: string, isTruncated: boolean): GitCommit[] {
  const words = text.split("\0");
  const commits: GitCommit[] = [];
  // The last commit of a truncated list is incomplete.
  const whole = isTruncated ? words.length - 5 : words.length;
  for (let at = 0; at + 5 <= whole; at += 5) {
    const [sha = "", short_sha = "", subject = "", author = "", timestamp = ""] = words.slice(at, at + 5);
    const shortened = { subject: subject.slice(0, maxText), author: author.slice(0, maxText) };
    commits.push({ sha, short_sha, ...shortened, timestamp });
  }
  return commits;
}

/**
 * The files below an absolute folder that a commit changed against its first parent, sorted by
 * path. Throws GitRefused for an unknown commit and outside of repositories, GitFailed, and what
 * `exec` throws.
 */
export async function gitCommitChanges(
  sandbox: CommandRunner,
  folder: string,
  sha: string,
): Promise<GitChange[]> {
  const args = [checkPath(folder), checkCommitId(sha)];
  const result = await runGitScript(sandbox, commitChangesScript, args, 8 * 2 ** 20);
  if (result.code === gitCodes.noRepository)
    throw new PlatformError("PathOutsideRepository", { path: folder });
  if (result.code !== 0) throw toGitError(result, sha);
  const words = result.stdout.toString().split("\0");
  const changes = new Map<string, GitChange["status"]>();
  for (let at = 0; at + 2 < words.length; at += 2) changes.set(words[at + 1]!, toStatus(words[at]!));
  return sortChanges(changes);
}

/** An absolute file before a commit and in it; otherwise as `gitDiff`. */
export async function gitCommitDiff(sandbox: CommandRunner, file: string, sha: string): Promise<GitDiff> {
  return runDiff(sandbox, commitDiffScript, file, checkCommitId(sha));
}

/** Throws GitRefused unless the text is a full or short commit id; branch names are not allowed. */
function checkCommitId(text: string): string {
  if (!/^[0-9a-fA-F]{4,64}$/.test(text)) throw new PlatformError("InvalidCommitId");
  return text;
}
