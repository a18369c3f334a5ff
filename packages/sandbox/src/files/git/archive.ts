import type { Readable } from "node:stream";
import { PlatformError } from "@sandpiper/core/errors";
import { type CommandRunner, checkPath } from "../files.ts";
import { openOutput } from "../output-stream.ts";
import { deltaScript, repositoryScript } from "./archive-script.ts";
import { runGit, toGitError } from "./git.ts";
import { gitCodes } from "./git-script.ts";

/** Time until a patch begins, ms: git reads every file before it. */
const deltaMs = 100_000;

/** A repository as an archive tells of it. */
export interface Repository {
  /** The folder in it that was meant, absolute. */
  folder: string;
  root: string;
  /** Empty before the first commit. */
  commit: string;
  /** DETACHED where there is none. */
  branch: string;
  /** Address of `origin` without credentials; empty where there is none. */
  remote: string;
}

/**
 * The repository that an absolute folder belongs to, or the only one in it, up to two levels below. Undefined where there is none, or no one alone.
 * Throws GitFailed, and what `exec` throws.
 */
export async function findRepository(
  sandbox: CommandRunner,
  folder: string,
): Promise<Repository | undefined> {
  const result = await runGit(sandbox, repositoryScript, [checkPath(folder)], 65_536);
  if (result.code === gitCodes.noRepository || result.code === gitCodes.noGit) return undefined;
  if (result.code !== 0) throw toGitError(result, undefined);
  const [found = "", root = "", commit = "", branch = "", remote = ""] = result.stdout.toString().split("\0");
  return { folder: found, root, commit, branch, remote: remote.replace(/^([\w+.-]+:\/\/)[^/]*@/, "$1") };
}

/**
 * What leads from a commit to the files of an absolute folder as they are now, as a patch for `git apply`; without a reference from where the work
 * began (see `gitChanges`). `excludes` are patterns as in .gitignore. `base` is empty where there is nothing before. The stream fails when git does;
 * ending it early ends git. Throws GitRefused for an unknown reference and a folder in no repository, GitFailed, and what `exec` throws.
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
    if (failed.timedOut)
      throw new PlatformError("GitFailed", `git did not make a patch within ${deltaMs / 1000} s.`);
    if (failed.code === gitCodes.noRepository)
      throw new PlatformError("GitRefused", `${folder} is not in a git repository.`);
    throw toGitError(failed, ref);
  }
  async function* parts(): AsyncGenerator<Buffer> {
    yield* opened.chunks;
    const ended = await opened.ended();
    if (ended.code !== 0) throw toGitError(ended, ref);
  }
  return { base: opened.head, content: opened.stream(parts()) };
}
