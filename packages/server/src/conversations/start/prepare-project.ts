import { randomBytes } from "node:crypto";
import { posix } from "node:path";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { StartTaskStatus } from "@sandpiper/wire";
import type { ConversationRow } from "../../store/conversation-store.ts";
import { cloneRepository, type GitIdentity } from "../project/clone.ts";
import { pluginFolder } from "../project/plugins.ts";
import { installHooks } from "./hooks-install.ts";
import { runSetupScript, setupNote } from "./setup.ts";
import type { StartWork } from "./start-plan.ts";

export interface ProjectPreparation {
  conversation: Pick<ConversationRow, "id" | "config">;
  work: Pick<StartWork, "repository" | "plugins">;
  /** The working directory was made ready for another conversation, which this one joins. */
  joinsProject: boolean;
  identity: GitIdentity;
  fullClone: boolean;
  /** Called before each state; what it throws ends the preparation. */
  onStep(status: StartTaskStatus, detail: string | null): Promise<void>;
  signal: AbortSignal;
}

/** What the preparation found out: folders of plugins, and notes for the agent. */
export interface PreparedProject {
  plugins: string[];
  notes: string[];
}

/**
 * Makes a project ready inside a sandbox (app-server.md section 2.4): clone, setup script, hooks, plugins. Every step finds what a start before a
 * crash has done. Throws RepositoryFailed, what `exec` throws, and the signal's reason.
 */
export async function prepareProject(
  sandbox: Sandbox,
  preparation: ProjectPreparation,
): Promise<PreparedProject> {
  const { conversation, work, joinsProject, identity, fullClone: full, onStep, signal } = preparation;
  const { workingDir, selectedBranch: branch } = conversation.config;
  const { repository, plugins } = work;
  const notes: string[] = [];

  await onStep(
    "PREPARING_REPOSITORY",
    repository ? `Cloning ${repository.fullName} from ${repository.host}.` : null,
  );
  if (repository) {
    const newBranch = branch ? null : `openhands-workspace-${randomBytes(4).toString("hex")}`;
    await cloneRepository(
      sandbox,
      { repository, target: workingDir, branch, newBranch, full, identity },
      signal,
    );
  }
  await onStep("RUNNING_SETUP_SCRIPT", null);
  if (repository && !joinsProject) {
    const note = setupNote(await runSetupScript(sandbox, workingDir, conversation.id, signal));
    if (note) notes.push(note);
  }
  await onStep("SETTING_UP_GIT_HOOKS", null);
  if (repository) await installHooks(sandbox, workingDir, signal);

  await onStep("SETTING_UP_SKILLS", plugins.length > 0 ? "Fetching plugins." : null);
  const folders: string[] = [];
  for (const plugin of plugins) {
    const target = pluginFolder(sandbox.spec.user.home, plugin);
    const request = {
      repository: plugin.repository,
      target,
      branch: plugin.ref,
      newBranch: null,
      full: false,
      identity,
    };
    await cloneRepository(sandbox, request, signal);
    folders.push(posix.join(target, plugin.path));
  }
  return { plugins: folders, notes };
}
