import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import { KeyedMutex } from "@sandpiper/core/scheduling/keyed-mutex";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { checkPath, failureReason, runScript } from "@sandpiper/sandbox/files/files";
import { gitCodes, prelude } from "@sandpiper/sandbox/files/git/git-script";
import type { WorktreeOptions } from "@sandpiper/wire";
import type { ConversationRow, Worktree } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";

/** Folder of all worktrees: `<id>/<project>` below it (agent-server.md section 3). */
const root = "/tmp/conversation-worktrees";

/** Exit code of the script for a branch whose name git refuses. */
const badBranch = 45;

/** Worktrees of a sandbox change in turn: git prunes one that another git is just adding. */
const turns = new KeyedMutex();

const createTimeoutMs = 300_000;
const removeTimeoutMs = 30_000;

/**
 * Arguments: folder, parent folder of the worktree, branch, base, reference. Prints the repository,
 * the worktree and the folder's path inside them, each followed by a NUL. A repository without a
 * commit counts as none. An existing worktree is left over from an earlier attempt and is reused.
 */
const createScript = `${prelude}
cd -- "$1" 2>/dev/null || exit ${gitCodes.noRepository}
top=$(git rev-parse --show-toplevel 2>/dev/null) && [ -n "$top" ] && exists HEAD || exit ${gitCodes.noRepository}
inner=$(git rev-parse --show-prefix) || exit 1
git check-ref-format "refs/heads/$3" || exit ${badBranch}
start=HEAD
case $4 in
  default_branch)
    for one in remotes/origin/HEAD remotes/origin/main remotes/origin/master heads/main heads/master; do
      start=$(id_of "refs/$one") && break
    done
    [ -n "$start" ] || start=HEAD ;;
  ref) start=$(id_of "$5") || start=$(id_of "refs/remotes/origin/$5") || exit ${gitCodes.badReference} ;;
esac
name=\${top##*/}
tree=$2/\${name:-project}
if ! [ -e "$tree/.git" ]; then
  git worktree prune
  if git show-ref --verify --quiet "refs/heads/$3"; then git worktree add -q -- "$tree" "$3"
  else git worktree add -q --no-track -b "$3" -- "$tree" "$start"
  fi || { git branch -q -d -- "$3" >/dev/null 2>&1; exit 1; }
fi
printf '%s\\0%s\\0%s\\0' "$top" "$tree" "$inner"`;

/** Arguments: repository, worktree, branch. An unmerged branch stays in the repository. */
const removeScript = `${prelude}
cd -- "$1" 2>/dev/null && git worktree remove --force --force -- "$2" || rm -rf -- "$2"
rmdir -- "\${2%/*}" 2>/dev/null
cd -- "$1" 2>/dev/null || exit 0
git worktree prune
git branch -q -d -- "$3" 2>/dev/null || :`;

/**
 * Creates a worktree on a new branch for a conversation, and returns it with the folder in it that
 * corresponds to `folder`; undefined when `folder` is in no git repository with a commit. Without
 * options it begins at HEAD. Wakes the sandbox. Throws SandboxFailed, SandboxNotFound, GitFailed,
 * InvalidParameter.
 */
export async function createWorktree(
  sandboxes: Pick<Sandboxes, "running">,
  { id, sandboxId }: Pick<ConversationRow, "id" | "sandboxId">,
  folder: string,
  options: WorktreeOptions = { base: "head" },
): Promise<{ worktree: Worktree; workingDir: string } | undefined> {
  const { base = "default_branch", ref, branch_prefix: prefix = "openhands/" } = options;
  if (base === "ref" && !ref) throw new PlatformError("WorktreeRefMissing");
  const sandbox = await sandboxes.running(sandboxId);
  const branch = `${prefix}${id}`;
  const args = [checkPath(folder), `${root}/${id}`, branch, base, ref ?? ""];
  const result = await turns.run(sandboxId, () =>
    runScript(sandbox, createScript, args, { timeoutMs: createTimeoutMs }),
  );
  if (result.code === gitCodes.noRepository || result.code === gitCodes.noGit) return undefined;
  if (result.code === badBranch) throw new PlatformError("WorktreeBranchInvalid", { branch });
  if (result.code === gitCodes.badReference) throw new PlatformError("WorktreeRefUnknown", { ref: ref! });
  if (result.code !== 0) throw new PlatformError("WorktreeFailed", { reason: failureReason(result) });
  const [repository, tree, inner] = result.stdout.toString().split("\0");
  return {
    worktree: { repository: repository!, folder: tree!, branch },
    workingDir: posix.join(tree!, inner!).replace(/\/$/, ""),
  };
}

/**
 * Removes the worktree of a deleted conversation, unless the sandbox does not run or another
 * conversation works in the worktree. Never rejects.
 */
export async function removeWorktree(
  {
    store,
    sandboxes,
  }: { store: Pick<Store, "conversations">; sandboxes: Pick<Sandboxes, "get" | "running"> },
  { userId, sandboxId }: Pick<ConversationRow, "userId" | "sandboxId">,
  worktree: Worktree | undefined,
): Promise<void> {
  if (!worktree || (await sandboxes.get(userId, sandboxId))?.status !== "RUNNING") return;
  const { repository, folder, branch } = worktree;
  const isInside = (path: string) => path === folder || path.startsWith(`${folder}/`);
  if ((await store.conversations.listBySandbox(sandboxId)).some(({ config }) => isInside(config.workingDir)))
    return;
  const args = [repository, folder, branch];
  await sandboxes
    .running(sandboxId)
    .then((sandbox) =>
      turns.run(sandboxId, () => runScript(sandbox, removeScript, args, { timeoutMs: removeTimeoutMs })),
    )
    .catch(() => {});
}
