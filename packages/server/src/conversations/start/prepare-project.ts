import { randomBytes } from "node:crypto";
import { preCommitHook } from "@sandpiper/agent/behaviour/own-parts";
import { type CommandRunner, runScript } from "@sandpiper/sandbox/files/files";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { StartTaskStatus } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import { cloneRepository, type GitIdentity } from "../project/clone.ts";
import { clonePlugins } from "../project/plugin-parts.ts";
import { runSetupScript, setupNote } from "./setup.ts";
import type { StartWork } from "./start-plan.ts";

export interface ProjectPreparation {
  conversation: Pick<ConversationRow, "id" | "config">;
  work: Pick<StartWork, "repository" | "plugins">;
  /** The working directory was prepared for the parent conversation. */
  joinsProject: boolean;
  identity: GitIdentity;
  fullClone: boolean;
  /** Called with the plugins' folders before anything of the project runs. */
  onFetched(plugins: readonly string[]): Promise<void>;
  /** Called before each state; an error ends the preparation. */
  onStep(status: StartTaskStatus, detail: string | null): Promise<void>;
  signal: AbortSignal;
}

/** Folders of plugins, and notes for the agent. */
export interface PreparedProject {
  plugins: string[];
  notes: string[];
}

/**
 * Prepares a project inside a sandbox: clone, plugins, setup script, hooks (app-server.md section
 * 2.4). Plugins are fetched first, because a project that was not accepted takes the secrets from
 * its sandbox. Every step can be repeated after a crash. Throws RepositoryFailed, what `exec`
 * throws, and the signal's reason.
 */
export async function prepareProject(
  sandbox: Sandbox,
  preparation: ProjectPreparation,
): Promise<PreparedProject> {
  const { conversation, work, joinsProject, identity, fullClone: full, signal } = preparation;
  const { onFetched, onStep } = preparation;
  const { workingDir, selectedBranch: branch } = conversation.config;
  const { repository, plugins } = work;
  const notes: string[] = [];

  await onStep(
    "PREPARING_REPOSITORY",
    repository ? `Cloning ${repository.fullName} from ${repository.host}.` : null,
  );
  if (repository) {
    const newBranch = branch ? null : `openhands-workspace-${randomBytes(4).toString("hex")}`;
    const request = { repository, target: workingDir, branch, newBranch, full, identity };
    await cloneRepository(sandbox, request, signal);
  }
  if (plugins.length > 0) await onStep("PREPARING_REPOSITORY", "Fetching plugins.");
  const folders = await clonePlugins(sandbox, plugins, identity, signal);
  await onFetched(folders);
  await onStep("RUNNING_SETUP_SCRIPT", null);
  if (repository && !joinsProject) {
    const note = setupNote(await runSetupScript(sandbox, workingDir, conversation.id, signal));
    if (note) notes.push(note);
  }
  await onStep("SETTING_UP_GIT_HOOKS", null);
  if (repository) await installHooks(sandbox, workingDir, signal);

  await onStep("SETTING_UP_SKILLS", null);
  return { plugins: folders, notes };
}

const hooksTimeoutMs = 30_000;

/**
 * Arguments: project folder, hook text. It may run twice concurrently when the server was killed,
 * so each run writes its own draft and moves it into place. The text is an argument because a kill
 * could truncate standard input.
 */
const installScript = `
cd -- "$1" && [ -f .openhands/pre-commit.sh ] && command -v git >/dev/null 2>&1 || exit 0
hooks=$(git rev-parse --git-path hooks 2>/dev/null) && mkdir -p -- "$hooks" || exit 0
draft="$hooks/.pre-commit.$$"
trap 'rm -f -- "$draft"' EXIT
if cp -- "$hooks/pre-commit" "$draft" 2>/dev/null && [ "$(cat -- "$draft"; echo .)" != "$2." ]; then
  chmod +x "$draft" && mv -f -- "$draft" "$hooks/pre-commit.local"
fi
printf %s "$2" >"$draft" && chmod 755 "$draft" && mv -f -- "$draft" "$hooks/pre-commit"`;

/** Installs the pre-commit hook; another hook becomes `pre-commit.local`. Idempotent. */
async function installHooks(sandbox: CommandRunner, workingDir: string, signal: AbortSignal): Promise<void> {
  await runScript(sandbox, installScript, [workingDir, preCommitHook], { timeoutMs: hooksTimeoutMs, signal });
}
