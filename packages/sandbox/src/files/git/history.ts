import { PlatformError } from "@sandpiper/core/errors";
import type { GitChange, GitCommit, GitDiff } from "@sandpiper/wire";
import { type CommandRunner, checkPath } from "../files.ts";
import { runDiff, runGit, sortChanges, toGitError, toStatus } from "./git.ts";
import { gitCodes } from "./git-script.ts";
import { commitChangesScript, commitDiffScript, commitsScript } from "./history-script.ts";

/** Longest list of commits, bytes: a subject can be as long as its author likes. */
const maxListBytes = 2 * 2 ** 20;
/** Longest subject and name that are told, characters. */
const maxText = 1_000;

/**
 * The newest commits of the repository that an absolute folder belongs to, at most `limit`, and whether there are more. None where there is no
 * repository, and in one without a commit (agent-server.md section 8). Throws GitFailed, and what `exec` throws.
 */
export async function gitCommits(
  sandbox: CommandRunner,
  folder: string,
  limit: number,
): Promise<{ commits: GitCommit[]; hasMore: boolean }> {
  const result = await runGit(sandbox, commitsScript, [checkPath(folder), String(limit + 1)], maxListBytes);
  if (result.code === gitCodes.noRepository) return { commits: [], hasMore: false };
  if (result.code !== 0) throw toGitError(result, undefined);
  const words = result.stdout.toString().split("\0");
  const commits: GitCommit[] = [];
  // The last commit of a list that was cut off is not whole.
  const whole = result.truncated ? words.length - 5 : words.length;
  for (let at = 0; at + 5 <= whole; at += 5) {
    const [sha, short_sha, subject, author, timestamp] = words.slice(at, at + 5) as [
      string,
      string,
      string,
      string,
      string,
    ];
    commits.push({
      sha,
      short_sha,
      subject: subject.slice(0, maxText),
      author: author.slice(0, maxText),
      timestamp,
    });
  }
  return { commits: commits.slice(0, limit), hasMore: commits.length > limit || result.truncated };
}

/** The files below an absolute folder that a commit changed against its first parent, sorted by path. Throws GitRefused for what is no commit and no repository, GitFailed, and what `exec` throws. */
export async function gitCommitChanges(
  sandbox: CommandRunner,
  folder: string,
  sha: string,
): Promise<GitChange[]> {
  const result = await runGit(
    sandbox,
    commitChangesScript,
    [checkPath(folder), checkCommitId(sha)],
    8 * 2 ** 20,
  );
  if (result.code === gitCodes.noRepository)
    throw new PlatformError("GitRefused", `${folder} is not in a git repository.`);
  if (result.code !== 0) throw toGitError(result, sha);
  const words = result.stdout.toString().split("\0");
  const changes = new Map<string, GitChange["status"]>();
  for (let at = 0; at + 2 < words.length; at += 2) changes.set(words[at + 1]!, toStatus(words[at]!));
  return sortChanges(changes);
}

/** An absolute file before a commit and in it, from git's objects alone; otherwise as `gitDiff`. */
export async function gitCommitDiff(sandbox: CommandRunner, file: string, sha: string): Promise<GitDiff> {
  return runDiff(sandbox, commitDiffScript, file, checkCommitId(sha));
}

/** An id of a commit, whole or short; names of branches are none. Throws GitRefused. */
function checkCommitId(text: string): string {
  if (!/^[0-9a-fA-F]{4,64}$/.test(text))
    throw new PlatformError("GitRefused", "The id of a commit has 4 to 64 hex digits.");
  return text;
}
