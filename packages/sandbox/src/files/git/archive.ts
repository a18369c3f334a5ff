import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { type CommandRunner, checkPath } from "../files.ts";
import { openOutput } from "../output-stream.ts";
import { deltaScript, repositoryScript } from "./archive-script.ts";
import { runGitScript, toGitError } from "./git.ts";
import { gitCodes } from "./git-script.ts";

/** Limit until a patch begins, ms: git reads every file first. */
const deltaMs = 100_000;

export interface ArchivedRepository {
  /** The requested folder, absolute. */
  folder: string;
  root: string;
  /** Empty before the first commit. */
  commit: string;
  /** DETACHED without a branch. */
  branch: string;
  /** URL of `origin` without user, query and fragment; may be empty. */
  remote: string;
}

/**
 * The repository of an absolute folder, or the only repository up to two levels below it. Throws
 * GitFailed, and what `exec` throws.
 */
export async function findRepository(
  sandbox: CommandRunner,
  folder: string,
): Promise<ArchivedRepository | undefined> {
  const result = await runGitScript(sandbox, repositoryScript, [checkPath(folder)], 65_536);
  if (result.code === gitCodes.noRepository || result.code === gitCodes.noGit) return undefined;
  if (result.code !== 0) throw toGitError(result, undefined);
  const [found = "", root = "", commit = "", branch = "", remote = ""] = result.stdout.toString().split("\0");
  return { folder: found, root, commit, branch, remote: withoutCredentials(remote) };
}

/** The URL of a remote without its user, query and fragment; any of them may be a credential. */
export function withoutCredentials(remote: string): string {
  const end = remote.search(/[?#]/);
  const address = end < 0 ? remote : remote.slice(0, end);
  return address.replace(/^([\w+.-]+:\/\/)[^/]*@/, "$1");
}

/**
 * A patch for `git apply` from a reference (default as in `gitChanges`) to the current files of an
 * absolute folder. `excludes` are .gitignore patterns. `base` is empty without an earlier commit.
 * The stream fails when git does; destroying it ends git. Throws GitRefused for an unknown
 * reference and outside of repositories, GitFailed, and what `exec` throws.
 */
export async function gitDelta(
  sandbox: CommandRunner,
  folder: string,
  { ref, excludes }: { ref: string | undefined; excludes: string[] },
): Promise<{ base: string; content: Readable }> {
  const opened = await openOutput(sandbox, deltaScript, [checkPath(folder), ref ?? "", ...excludes], {
    maxHead: 256,
    headMs: deltaMs,
  });
  if (opened.head === undefined) {
    const failed = await opened.end();
    if (failed.timedOut) throw new PlatformError("GitTimeout", { seconds: deltaMs / 1000 });
    if (failed.code === gitCodes.noRepository)
      throw new PlatformError("PathOutsideRepository", { path: folder });
    throw toGitError(failed, ref);
  }
  async function* parts(): AsyncGenerator<Buffer> {
    yield* opened.chunks;
    const ended = await opened.ended();
    if (ended.code !== 0) throw toGitError(ended, ref);
  }
  return { base: opened.head, content: opened.stream(parts()) };
}
