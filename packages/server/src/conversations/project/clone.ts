import { randomBytes } from "node:crypto";
import { PlatformError } from "@sandpiper/core/errors";
import { type CommandRunner, toScriptCommand } from "@sandpiper/sandbox/files/files";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import type { AgentPreferences } from "../../users/api.ts";
import type { Repository } from "./repository.ts";

/** Time for a clone, s (app-server.md section 2.4). */
const cloneSeconds = 120;

export interface CloneRequest {
  repository: Repository;
  /** Absolute path inside the sandbox that the repository is to have. */
  target: string;
  branch: string | null;
  /** A branch that is made where none is asked for; null stays on the repository's own. */
  newBranch: string | null;
  full: boolean;
  identity: GitIdentity;
}

/** Author of commits that are made in the sandbox. */
export interface GitIdentity {
  name: string;
  email: string;
}

/** The author that a user's settings name, else the default one. */
export function getGitIdentity({
  gitUserName,
  gitUserEmail,
}: Pick<AgentPreferences, "gitUserName" | "gitUserEmail">): GitIdentity {
  return {
    name: gitUserName?.trim() || "openhands",
    email: gitUserEmail?.trim() || "openhands@all-hands.dev",
  };
}

const codes = {
  noGit: 61,
  noFolder: 62,
  otherRepository: 63,
  notEmpty: 64,
  clone: 65,
  branch: 66,
  tooLong: 67,
} as const;

/**
 * The clone is made beside its place and moved there when all is done, so that what has a \`.git\` is whole: a start that goes on after a crash
 * finds it, and clears away half of one. What the credential helper gives is a placeholder, which the egress proxy replaces.
 */
const cloneScript = `
target=$1 word=$2 url=$3 branch=$4 new=$5 depth=$6 name=$7 email=$8 helper=$9
shift 9
origin=$1 limit=$2
export GIT_TERMINAL_PROMPT=0 GIT_ASKPASS= SSH_ASKPASS= GCM_INTERACTIVE=never
command -v git >/dev/null 2>&1 || exit ${codes.noGit}
parent=\${target%/*}
mkdir -p -- "$parent/" 2>&1 || exit ${codes.noFolder}
if [ -e "$target/.git" ]; then
  [ "$(git -C "$target" config --get remote.origin.url)" = "$url" ] || exit ${codes.otherRepository}
  [ -z "$branch" ] || [ "$(git -C "$target" rev-parse --abbrev-ref HEAD)" = "$branch" ] ||
    git -C "$target" checkout -q "$branch" -- || exit ${codes.branch}
  exit 0
fi
[ -z "$(ls -A -- "$target" 2>/dev/null)" ] || exit ${codes.notEmpty}
name_of=\${target##*/}
rm -rf -- "$parent/.$name_of.clone-"*
new_folder=$parent/.$name_of.clone-$word
trap 'rm -rf -- "$new_folder"' EXIT
limited=
command -v timeout >/dev/null 2>&1 && limited="timeout -s KILL $limit"
set -- -q
[ "$depth" = full ] || set -- "$@" --depth 1
[ -z "$branch" ] || set -- "$@" --branch "$branch"
[ -z "$helper" ] || set -- "$@" -c "credential.$origin.helper=$helper"
$limited git clone "$@" -- "$url" "$new_folder"
code=$?
case $code in 0) ;; 124|137) exit ${codes.tooLong} ;; *) exit ${codes.clone} ;; esac
cd -- "$new_folder" || exit ${codes.clone}
# A shallow clone follows one branch only; the others can be fetched later.
git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
git config user.name "$name" && git config user.email "$email"
if [ -z "$branch" ] && [ -n "$new" ]; then git checkout -q -b "$new" || exit ${codes.branch}; fi
cd / && { rmdir -- "$target" 2>/dev/null; mv -- "$new_folder" "$target"; } || { [ -e "$target/.git" ] || exit ${codes.notEmpty}; }
trap - EXIT`;

/**
 * Clones a repository inside a sandbox, through its egress proxy, and checks out a branch. Where it is there already it stays as it is, but for the branch.
 * Throws RepositoryFailed with one sentence on why and what to do, what `exec` throws, and the signal's reason.
 */
export async function cloneRepository(
  sandbox: CommandRunner,
  request: CloneRequest,
  signal: AbortSignal,
): Promise<void> {
  const { repository, target, branch, newBranch, full, identity } = request;
  const { login, url } = repository;
  const helper = login
    ? `!f() { test "$1" = get && test -n "$${login.variable}" && printf 'username=%s\\npassword=%s\\n' '${login.user}' "$${login.variable}"; }; f`
    : "";
  const word = randomBytes(6).toString("hex");
  const words = [
    target,
    word,
    url,
    branch ?? "",
    newBranch ?? "",
    full ? "full" : "shallow",
    identity.name,
    identity.email,
  ];
  const command = toScriptCommand(sandbox, cloneScript, [
    ...words,
    helper,
    new URL(url).origin,
    String(cloneSeconds),
  ]);
  const limits = { timeoutMs: (cloneSeconds + 10) * 1000, maxOutputBytes: 64 * 1024, signal };
  const { code, stderr, stdout, timedOut } = await runToEnd(sandbox, { ...command, cwd: "/" }, limits);
  if (code !== 0) throw toCloneError(timedOut ? codes.tooLong : code, `${stderr}${stdout}`, request);
}

function toCloneError(
  code: number,
  output: string,
  { repository, target, branch, full }: CloneRequest,
): PlatformError {
  const { fullName, host } = repository;
  const said = lastLine(output);
  switch (code) {
    case codes.noGit:
      return refused(
        `${fullName} cannot be cloned: the sandbox's image has no git; choose an image that has it.`,
      );
    case codes.noFolder:
      return refused(`${fullName} cannot be cloned: the folder of ${target} cannot be made (${said}).`);
    case codes.otherRepository:
    case codes.notEmpty:
      return refused(
        `${fullName} cannot be cloned: ${target} holds something else already; start in another sandbox.`,
      );
    case codes.tooLong:
      return refused(
        `Cloning ${fullName} took longer than ${cloneSeconds} s${full ? "; a shallow clone (git_full_clone off in the settings) takes less" : ""}.`,
      );
    case codes.branch:
      return refused(`The branch ${branch} of ${fullName} cannot be checked out: ${said}.`);
  }
  if (/remote branch .* not found|could not find remote branch/i.test(output))
    return refused(`${fullName} has no branch or tag ${branch}: choose another one.`);
  if (/CONNECT tunnel failed|response 403 after CONNECT|HTTP code 403 from proxy/i.test(output))
    return refused(`${fullName} cannot be cloned: the network policy of the sandbox does not allow ${host}.`);
  if (
    /could not read (Username|Password)|Authentication failed|returned error: 40[13]|not found|does not exist/i.test(
      output,
    )
  )
    return refused(accessSentence(repository));
  return refused(`${fullName} could not be cloned: ${said}.`);
}

function accessSentence({ fullName, provider, host, login }: Repository): string {
  if (login)
    return `${fullName} cannot be read at ${host}: it does not exist, or the stored ${provider} token does not allow it.`;
  return `${fullName} cannot be read at ${host}: it does not exist, or it is private and needs a ${provider} token in the settings.`;
}

/** The last line that says something, short and without addresses' credentials. */
function lastLine(output: string): string {
  const lines = output.split(/[\r\n]+/).map((line) => line.trim());
  const line =
    lines.findLast((text) => text !== "" && !/^(hint|warning):/.test(text)) ?? "git gave no reason";
  return line
    .replace(/^(fatal|error): /, "")
    .replace(/:\/\/[^/@\s]*@/g, "://")
    .replace(/[^\x20-\x7e]/g, "?")
    .replace(/\.$/, "")
    .slice(0, 300);
}

function refused(message: string): PlatformError {
  return new PlatformError("RepositoryFailed", message);
}
