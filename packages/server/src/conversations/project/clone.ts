import { randomBytes } from "node:crypto";
import { toCredentialHelper } from "@sandpiper/agent/behaviour/own-parts";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import { type CommandRunner, toScriptCommand } from "@sandpiper/sandbox/files/files";
import type { NetworkProblem } from "@sandpiper/sandbox/network/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import { runToEnd } from "@sandpiper/sandbox/shell/run";
import type { AgentPreferences } from "../../users/api.ts";
import type { ProjectRepository } from "./repository.ts";

/** Time for a clone, s (app-server.md section 2.4). */
const cloneSeconds = 120;
/**
 * Share of the room of a sandbox that a clone may take. At the end of the room the sandbox is
 * stopped, which says less, and without any room no work is possible.
 */
const roomShare = 0.9;

export interface CloneRequest {
  repository: ProjectRepository;
  /** Absolute path of the clone inside the sandbox. */
  target: string;
  branch: string | null;
  /** Branch to create when `branch` is null; null stays on the repository's default. */
  newBranch: string | null;
  full: boolean;
  identity: GitIdentity;
  /** Time for the clone, s; default: `cloneSeconds`. */
  seconds?: number;
  /** Maximum size of the clone, bytes; default: what the sandbox may still store. */
  maxBytes?: number;
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
  tooLarge: 68,
} as const;

/**
 * Clones into a neighbouring folder and moves it into place when complete, so that a folder with a
 * `.git` is whole: a start that resumes after a crash finds it, or removes a partial clone. The
 * credential helper returns a placeholder, which the egress proxy replaces.
 */
const cloneScript = `
target=$1 word=$2 url=$3 branch=$4 new=$5 depth=$6 name=$7 email=$8 helper=$9
shift 9
origin=$1 limit=$2 most=$3
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
set -- -q --no-checkout
[ "$depth" = full ] || set -- "$@" --depth 1
[ -z "$branch" ] || set -- "$@" --branch "$branch"
[ -z "$helper" ] || set -- "$@" -c "credential.$origin.helper=$helper"
# No file becomes larger, and the size of the files is known before they are written. Programs that
# ignore SIGXFSZ say why they end.
trap '' 25
ulimit -f $((most / 512))
$limited git clone "$@" -- "$url" "$new_folder"
code=$?
case $code in 0) ;; 124|137) exit ${codes.tooLong} ;; *) exit ${codes.clone} ;; esac
cd -- "$new_folder" || exit ${codes.clone}
if git rev-parse -q --verify HEAD >/dev/null; then
  used=$(du -sk . | { read -r kilobytes rest; echo "$((kilobytes * 1024))"; })
  size=$(git ls-tree -r -l HEAD | {
    sum=$used
    while read -r mode kind hash bytes path; do
      case $bytes in *[!0-9]*) ;; *) sum=$((sum + (bytes + 4095) / 4096 * 4096)) ;; esac
      [ "$sum" -le "$most" ] || break
    done
    echo "$sum"
  })
  [ "$size" -le "$most" ] || exit ${codes.tooLarge}
  git reset -q --hard || exit ${codes.clone}
fi
# A shallow clone follows one branch only; the others can be fetched later.
git config remote.origin.fetch '+refs/heads/*:refs/remotes/origin/*'
git config user.name "$name" && git config user.email "$email"
if [ -z "$branch" ] && [ -n "$new" ]; then git checkout -q -b "$new" || exit ${codes.branch}; fi
cd / && { rmdir -- "$target" 2>/dev/null; mv -- "$new_folder" "$target"; } || { [ -e "$target/.git" ] || exit ${codes.notEmpty}; }
trap - EXIT`;

/** Clones into one folder run one after another: each removes what an unfinished one left. */
const turns = new KeyedMutex();

/**
 * Clones a repository inside a sandbox, through its egress proxy, and checks out a branch. An
 * existing clone is reused. Throws RepositoryFailed, what `exec` throws, and the signal's reason.
 */
export async function cloneRepository(
  sandbox: CommandRunner & Partial<Pick<Sandbox, "id" | "watchNetwork" | "diskRoom">>,
  request: CloneRequest,
  signal: AbortSignal,
): Promise<void> {
  await turns.run(`${sandbox.id} ${request.target}`, () => clone(sandbox, request, signal));
}

async function clone(
  sandbox: Parameters<typeof cloneRepository>[0],
  request: CloneRequest,
  signal: AbortSignal,
): Promise<void> {
  const { repository, target, branch, newBranch, full, identity } = request;
  const { login, url } = repository;
  const { seconds = cloneSeconds } = request;
  const room = Math.floor((sandbox.diskRoom?.() ?? Number.MAX_SAFE_INTEGER) * roomShare);
  const maxBytes = Math.min(request.maxBytes ?? room, room);
  const helper = login ? toCredentialHelper(login) : "";
  const command = toScriptCommand(sandbox, cloneScript, [
    target,
    randomBytes(6).toString("hex"),
    url,
    branch ?? "",
    newBranch ?? "",
    full ? "full" : "shallow",
    identity.name,
    identity.email,
    helper,
    new URL(url).origin,
    String(seconds),
    String(maxBytes),
  ]);
  const limits = { timeoutMs: (seconds + 10) * 1000, maxOutputBytes: 64 * 1024, signal };
  const endWatch = sandbox.watchNetwork?.() ?? (() => []);
  try {
    const { code, stderr, stdout, timedOut } = await runToEnd(sandbox, { ...command, cwd: "/" }, limits);
    if (code === 0) return;
    // git shows only the status of a proxy's answer, which is the same for many reasons.
    const output = `${stderr}${stdout}`;
    const isLocal = code !== codes.clone || tooLargeText.test(output) || diskFullText.test(output);
    const problem = isLocal ? undefined : findProblem(endWatch(), request);
    if (problem)
      throw new PlatformError("CloneNetworkFailed", { name: repository.fullName, reason: problem });
    throw toCloneError(timedOut ? codes.tooLong : code, output, { ...request, room });
  } finally {
    endWatch();
  }
}

/** What the network said about the host of a clone, or about one that it led to. */
function findProblem(problems: NetworkProblem[], { repository }: CloneRequest): string | undefined {
  const { hostname } = new URL(repository.url);
  return (problems.find(({ host }) => host === hostname) ?? problems.at(-1))?.sentence;
}

const tooLargeText = /died of signal 25|file size limit|file too large/i;
const diskFullText = /no space left on device|disk quota exceeded/i;

/** `room`: bytes that a clone may take in the sandbox. */
export function toCloneError(
  code: number,
  output: string,
  request: CloneRequest & { room: number },
): PlatformError {
  const { repository, target, branch, full, seconds = cloneSeconds, room, maxBytes = room } = request;
  const { fullName: name, host, provider, login } = repository;
  const reason = lastLine(output);
  const tooLarge = () =>
    maxBytes < room
      ? new PlatformError("CloneTooLarge", { name, mib: toMebibytes(maxBytes) })
      : new PlatformError("CloneWithoutRoom", { name, mib: toMebibytes(room), full });
  switch (code) {
    case codes.noGit:
      return new PlatformError("CloneWithoutGit", { name });
    case codes.noFolder:
      return new PlatformError("CloneFolderFailed", { name, target, reason });
    case codes.otherRepository:
    case codes.notEmpty:
      return new PlatformError("CloneTargetTaken", { name, target });
    case codes.tooLong:
      return new PlatformError("CloneTimeout", { name, seconds, full });
    case codes.tooLarge:
      return tooLarge();
    case codes.branch:
      return new PlatformError("CheckoutFailed", { name, branch: String(branch), reason });
  }
  if (tooLargeText.test(output)) return tooLarge();
  if (diskFullText.test(output)) return new PlatformError("CloneDiskFull", { name });
  if (/remote branch .{0,300} not found|could not find remote branch/i.test(output))
    return new PlatformError("BranchUnknown", { name, branch: String(branch) });
  if (/CONNECT tunnel failed, response 403|response 403 after CONNECT|HTTP code 403 from proxy/i.test(output))
    return new PlatformError("CloneHostBlocked", { name, host });
  const isDenied =
    /could not read (Username|Password)|Authentication failed|returned error: 40[13]|not found|does not exist/i;
  return isDenied.test(output)
    ? new PlatformError("CloneAccessDenied", { name, host, provider, hasToken: login !== null })
    : new PlatformError("CloneFailed", { name, reason });
}

function toMebibytes(bytes: number): number {
  return Math.ceil((bytes / 2 ** 20) * 10) / 10;
}

/** The last line of git's output that gives a reason, shortened and without credentials in URLs. */
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
