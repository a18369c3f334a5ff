import { posix } from "node:path";
import { type HookConfig, mergeHookConfigs } from "@sandpiper/agent/hooks/config";
import { loadHooks } from "@sandpiper/agent/hooks/load";
import { loadSkills } from "@sandpiper/agent/skills/load";
import { mergeSkills, type Skill } from "@sandpiper/agent/skills/skill";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { PluginSpec } from "@sandpiper/wire";
import type { Secrets, Settings } from "../../users/api.ts";
import { cloneRepository, getGitIdentity } from "./clone.ts";
import { loadPluginServers } from "./plugin-servers.ts";
import { parsePlugin, pluginFolder } from "./plugins.ts";
import type { ProjectContext } from "./project-context.ts";

export interface PluginDeps {
  sandboxes: Pick<Sandboxes, "running">;
  settings: Pick<Settings, "agent">;
  secrets: Pick<Secrets, "providers">;
}

/** Where plugins are fetched for a conversation. */
export interface PluginTarget {
  userId: string;
  sandboxId: string;
  workingDir: string;
}

/** What plugins bring to a conversation. */
export interface PluginParts {
  /** Their folders inside the sandbox. */
  folders: string[];
  skills: Skill[];
  hooks: HookConfig;
  mcpServers: Record<string, unknown>;
  /** Sentences about what cannot be used. */
  problems: string[];
}

/**
 * Fetches plugins into a sandbox, which wakes for it, and reads what they bring; skills of the project of the same name go before theirs. Throws InvalidParameter,
 * RepositoryFailed, what `Sandboxes.running` and `exec` throw, and the reason of `signal`.
 */
export async function fetchPlugins(
  { sandboxes, settings, secrets }: PluginDeps,
  { userId, sandboxId, workingDir }: PluginTarget,
  specs: readonly PluginSpec[],
  signal: AbortSignal,
): Promise<PluginParts> {
  const tokens = secrets.providers(userId);
  const plugins = specs.map((spec) => parsePlugin(spec, tokens));
  if (plugins.length === 0) return { folders: [], skills: [], hooks: {}, mcpServers: {}, problems: [] };
  const sandbox = await sandboxes.running(sandboxId);
  const identity = getGitIdentity(settings.agent(userId));
  const folders: string[] = [];
  for (const plugin of plugins) {
    const target = pluginFolder(sandbox.spec.user.home, plugin);
    const { repository, ref: branch } = plugin;
    await cloneRepository(
      sandbox,
      { repository, target, branch, newBranch: null, full: false, identity },
      signal,
    );
    folders.push(posix.join(target, plugin.path));
  }
  const isTheirs = ({ location }: Skill) => folders.some((folder) => location?.startsWith(`${folder}/`));
  const [found, hooks, mcpServers] = await Promise.all([
    loadSkills(sandbox, { workingDir, plugins: folders }),
    loadHooks(sandbox, { workingDir: undefined, plugins: folders }),
    loadPluginServers(sandbox, folders),
  ]);
  return {
    folders,
    skills: found.filter(isTheirs),
    hooks: hooks.config,
    mcpServers,
    problems: hooks.problems,
  };
}

/** A context with what plugins bring, in the place of what it has by the same names. */
export function withPlugins(
  before: ProjectContext,
  { folders, skills, hooks, mcpServers, problems }: PluginParts,
): ProjectContext {
  const known = new Set(before.plugins);
  // One that is loaded again does not run its hooks twice.
  const newHooks = folders.every((folder) => known.has(folder)) ? {} : hooks;
  return {
    ...before,
    skills: mergeSkills(skills, before.skills),
    ...(folders.length > 0 && { plugins: [...new Set([...known, ...folders])] }),
    ...(Object.keys(newHooks).length > 0 && {
      pluginHooks: mergeHookConfigs([before.pluginHooks ?? {}, newHooks]),
    }),
    ...(Object.keys(mcpServers).length > 0 && { mcpServers: { ...before.mcpServers, ...mcpServers } }),
    ...(problems.length > 0 && { problems: [...(before.problems ?? []), ...problems] }),
  };
}
