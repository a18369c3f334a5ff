import { posix } from "node:path";
import type { PluginSpec } from "@sandpiper/wire";
import { loadSkills } from "../agent/skills/load.ts";
import type { Skill } from "../agent/skills/skill.ts";
import type { Sandboxes } from "../sandboxes/api.ts";
import type { Secrets, Settings } from "../users/api.ts";
import { cloneRepository } from "./clone.ts";
import { gitIdentity } from "./git-identity.ts";
import { findPlugin, pluginFolder } from "./plugins.ts";

export interface PluginSkillDependencies {
  sandboxes: Pick<Sandboxes, "running">;
  settings: Pick<Settings, "agent">;
  secrets: Pick<Secrets, "providers">;
}

/** Where plugins are fetched for a conversation. */
export interface PluginPlace {
  userId: string;
  sandboxId: string;
  workingDir: string;
}

/**
 * Fetches plugins into a sandbox, which wakes for it, and reads their skills; the project's of the same name go before them. Throws InvalidParameter,
 * RepositoryFailed, what `Sandboxes.running` and `exec` throw, and the reason of `signal`.
 */
export async function pluginSkills(
  { sandboxes, settings, secrets }: PluginSkillDependencies,
  { userId, sandboxId, workingDir }: PluginPlace,
  specs: readonly PluginSpec[],
  signal: AbortSignal,
): Promise<Skill[]> {
  const tokens = secrets.providers(userId);
  const plugins = specs.map((spec) => findPlugin(spec, tokens));
  if (plugins.length === 0) return [];
  const sandbox = await sandboxes.running(sandboxId);
  const identity = gitIdentity(settings.agent(userId));
  const folders: string[] = [];
  for (const plugin of plugins) {
    const target = pluginFolder(sandbox.spec.user.home, plugin);
    const { repository, ref: branch } = plugin;
    await cloneRepository(sandbox, { repository, target, branch, newBranch: null, full: false, identity }, signal);
    folders.push(posix.join(target, plugin.path));
  }
  const found = await loadSkills(sandbox, { workingDir, plugins: folders });
  return found.filter(({ location }) => folders.some((folder) => location?.startsWith(`${folder}/`)));
}
