import { posix } from "node:path";
import { PlatformError } from "@sandpiper/core/errors";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import { type CommandRunner, checkPath, reason, runScript } from "@sandpiper/sandbox/files/files";
import { gitCodes, prelude } from "@sandpiper/sandbox/files/git/git-script";
import type { ConversationRow, Worktree } from "../../store/conversation-store.ts";
import type { Store } from "../../store/store.ts";

/** Where the worktrees of conversations lie in a sandbox: `<id>/<project>` below it (agent-server.md section 3). */
const root = "/tmp/conversation-worktrees";

/** Time to check out a project, ms, and to remove one. */
const makeMs = 300_000;
const removeMs = 30_000;

/**
 * Folder, place of the conversation's worktree, branch. Writes the repository, the worktree, and the folder's path below them, a NUL after each. A
 * repository without a commit counts as none: there is nothing to check out. One that is there is of a try before.
 */
const makeScript = `${prelude}
cd -- "$1" 2>/dev/null || exit ${gitCodes.noRepository}
top=$(git rev-parse --show-toplevel 2>/dev/null) && [ -n "$top" ] && exists HEAD || exit ${gitCodes.noRepository}
inner=$(git rev-parse --show-prefix) || exit 1
name=\${top##*/}
tree=$2/\${name:-project}
if ! [ -e "$tree/.git" ]; then
  git worktree prune
  if git show-ref --verify --quiet "refs/heads/$3"; then git worktree add -q -- "$tree" "$3"
  else git worktree add -q -b "$3" -- "$tree" HEAD
  fi || { git branch -q -d -- "$3" >/dev/null 2>&1; exit 1; }
fi
printf '%s\\0%s\\0%s\\0' "$top" "$tree" "$inner"`;

/** Repository, worktree, branch. What was committed on the branch and is nowhere else stays in the repository. */
const removeScript = `${prelude}
cd -- "$1" 2>/dev/null && git worktree remove --force --force -- "$2" || rm -rf -- "$2"
rmdir -- "\${2%/*}" 2>/dev/null
cd -- "$1" 2>/dev/null || exit 0
git worktree prune
git branch -q -d -- "$3" 2>/dev/null || :`;

/** A worktree, and the folder in it that stands for the one that was asked for. */
export interface MadeWorktree {
  worktree: Worktree;
  workingDir: string;
}

/**
 * Gives a conversation a worktree of its own on a new branch, where a folder of its sandbox is in a git repository with a commit; else undefined. The
 * sandbox wakes for it. Throws SandboxFailed, SandboxNotFound, and GitFailed where git refuses.
 */
export async function createWorktree(
  sandboxes: Pick<Sandboxes, "running">,
  { id, sandboxId }: Pick<ConversationRow, "id" | "sandboxId">,
  folder: string,
): Promise<MadeWorktree | undefined> {
  const sandbox = await sandboxes.running(sandboxId);
  const branch = `conversation-${id.slice(0, 8)}`;
  const result = await runScript(sandbox, makeScript, [checkPath(folder), `${root}/${id}`, branch], {
    timeoutMs: makeMs,
  });
  if (result.code === gitCodes.noRepository || result.code === gitCodes.noGit) return undefined;
  if (result.code !== 0)
    throw new PlatformError("GitFailed", `The worktree could not be made: ${reason(result)}`);
  const [repository, tree, inner] = result.stdout.toString().split("\0");
  return {
    worktree: { repository: repository!, folder: tree!, branch },
    workingDir: posix.join(tree!, inner!).replace(/\/$/, ""),
  };
}

/**
 * Removes the worktree of a conversation that is gone, where its sandbox runs and no other conversation works in it; a sandbox that sleeps keeps it.
 * Never rejects.
 */
export async function removeWorktree(
  {
    store,
    sandboxes,
  }: { store: Pick<Store, "conversations">; sandboxes: Pick<Sandboxes, "get" | "running"> },
  { userId, sandboxId }: Pick<ConversationRow, "userId" | "sandboxId">,
  worktree: Worktree | undefined,
): Promise<void> {
  if (!worktree || sandboxes.get(userId, sandboxId)?.status !== "RUNNING") return;
  const { repository, folder, branch } = worktree;
  const isInside = (path: string) => path === folder || path.startsWith(`${folder}/`);
  if (store.conversations.bySandbox(sandboxId).some(({ config }) => isInside(config.workingDir))) return;
  const remove = async (sandbox: CommandRunner) =>
    runScript(sandbox, removeScript, [repository, folder, branch], { timeoutMs: removeMs });
  await sandboxes
    .running(sandboxId)
    .then(remove)
    .catch(() => {});
}
