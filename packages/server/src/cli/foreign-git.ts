import { randomBytes } from "node:crypto";
import { statSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { CliError } from "./errors.ts";
import { type GitOptions, runGit } from "./git.ts";
import { inertLine } from "./inert.ts";

/**
 * Most bytes of an answer: the paths of a copy of the default limit need far fewer, and an index
 * can name many more files than there are.
 */
const maxAnswerBytes = 512 * 1024 * 1024;

/** Time for an answer, ms: git on a slow disk needs a part of it for a million files. */
const maxAnswerMs = 120_000;

/**
 * Settings that win over those of the folder: each one of these names a program that git starts.
 */
const settings = [
  "core.fsmonitor=false",
  "core.hooksPath=/dev/null",
  "core.sshCommand=false",
  "core.gitProxy=false",
  "core.askPass=false",
  "core.editor=false",
  "core.pager=cat",
  "core.alternateRefsCommand=false",
  "credential.helper=",
  "diff.external=false",
  "gpg.program=false",
  "protocol.allow=never",
  "safe.bareRepository=explicit",
  "submodule.recurse=false",
  "gc.auto=0",
  "maintenance.auto=false",
];

/**
 * git fetches an object that is missing from the remote that the folder names, with a program that
 * the folder names. `GIT_ALLOW_PROTOCOL` wins over `protocol.NAME.allow` of the folder, which
 * `protocol.allow` does not. The folder must not know the one name that is allowed: for `NAME::`
 * git starts `git remote-NAME`, which may be an alias of the folder, for an empty name as well.
 */
const isolated: Readonly<Record<string, string>> = {
  GIT_NO_LAZY_FETCH: "1",
  GIT_ALLOW_PROTOCOL: randomBytes(16).toString("hex"),
  GIT_TERMINAL_PROMPT: "0",
  GIT_OPTIONAL_LOCKS: "0",
  GIT_ASKPASS: "false",
  SSH_ASKPASS: "false",
  GIT_EXTERNAL_DIFF: "",
  LC_ALL: "C",
};

/** The options of a question about a folder of strangers. */
export interface ForeignGitOptions extends Pick<GitOptions, "user" | "accept" | "signal"> {
  /** The folder, or a folder in it. */
  cwd: string;
  /** Longest time for the answer, ms. */
  maxMs?: number;
}

/** git waits for a file that never ends, such as a named pipe. */
export class GitStuck extends CliError {}

/**
 * Asks git about a folder whose `.git` may be of strangers. No program that the folder names runs,
 * nothing is fetched, and nothing is written. Throws CliError with git's message, and GitStuck.
 */
export function askForeignGit(args: readonly string[], options: ForeignGitOptions): Promise<Buffer> {
  const { cwd, maxMs = maxAnswerMs } = options;
  const root = findRepository(cwd);
  // Otherwise the folder's `core.worktree` decides which files are listed.
  const env = { ...isolated, ...(root && { GIT_WORK_TREE: root }) };
  return runGit(["--no-pager", ...settings.flatMap((setting) => ["-c", setting]), ...args], {
    ...options,
    env,
    maxBytes: maxAnswerBytes,
    limit: {
      ms: maxMs,
      error: () =>
        new GitStuck(
          `git gave no answer about ${inertLine(cwd)} within ${maxMs / 1000} s: look there for a named pipe or a device that git reads, such as .gitignore, .git/config or .git/info/exclude.`,
        ),
    },
  });
}

/** The nearest folder at or above a path that has a `.git`; undefined when there is none. */
export function findRepository(folder: string): string | undefined {
  for (let at = resolve(folder); ; at = dirname(at)) {
    if (statSync(join(at, ".git"), { throwIfNoEntry: false })) return at;
    if (at === dirname(at)) return undefined;
  }
}
