import { posix } from "node:path";
import { type HookConfig, mergeHookConfigs } from "@sandpiper/agent/hooks/config";
import { loadHooks } from "@sandpiper/agent/hooks/load";
import { loadSkills } from "@sandpiper/agent/skills/load";
import { mergeSkills, type Skill } from "@sandpiper/agent/skills/skill";
import type { Sandboxes } from "@sandpiper/sandbox/api";
import type { Sandbox } from "@sandpiper/sandbox/sandbox";
import type { PluginSpec } from "@sandpiper/wire";
import type { Secrets, Settings } from "../../users/api.ts";
import type { ProjectBehaviours } from "./behaviours.ts";
import { cloneRepository, type GitIdentity, getGitIdentity } from "./clone.ts";
import { loadPluginServers } from "./plugin-servers.ts";
import { type Plugin, parsePlugin, pluginFolder } from "./plugins.ts";
import type { ProjectContext } from "./project-context.ts";

export interface PluginFetcherDeps {
  sandboxes: Pick<Sandboxes, "running">;
  settings: Pick<Settings, "agent">;
  secrets: Pick<Secrets, "providers">;
  behaviours: Pick<ProjectBehaviours, "find">;
}

/** Where the plugins of a conversation are fetched. */
export interface PluginTarget {
  userId: string;
  sandboxId: string;
  workingDir: string;
}

/** The parts that plugins add to a conversation. */
export interface PluginParts {
  /** Their folders inside the sandbox. */
  folders: string[];
  skills: Skill[];
  hooks: HookConfig;
  mcpServers: Record<string, unknown>;
  /** Sentences about parts that cannot be used. */
  problems: string[];
}

/** Fetches plugins into sandboxes. */
export class PluginFetcher {
  readonly #deps: PluginFetcherDeps;
  readonly #closing = new AbortController();

  constructor(deps: PluginFetcherDeps) {
    this.#deps = deps;
  }

  /**
   * Fetches plugins into a sandbox, which it wakes, and reads their parts; the project's skills of
   * the same name take precedence. With `finds`, what the project does is read without plugins,
   * too: clients send a project's hooks and skills as their own. Throws InvalidParameter,
   * RepositoryFailed, what `Sandboxes.running` and `exec` throw, and an error at shutdown.
   */
  async fetch(
    { userId, sandboxId, workingDir }: PluginTarget,
    specs: readonly PluginSpec[],
    { finds = false }: { finds?: boolean } = {},
  ): Promise<PluginParts> {
    const { sandboxes, settings, secrets, behaviours } = this.#deps;
    const tokens = await secrets.providers(userId);
    const plugins = specs.map((spec) => parsePlugin(spec, tokens));
    const none = { folders: [], skills: [], hooks: {}, mcpServers: {}, problems: [] };
    if (plugins.length === 0 && !finds) return none;
    const sandbox = await sandboxes.running(sandboxId);
    const identity = getGitIdentity(await settings.agent(userId));
    const folders = await clonePlugins(sandbox, plugins, identity, this.#closing.signal);
    const place = { userId, sandboxId, workingDir, plugins: folders };
    if (plugins.length === 0) {
      await behaviours.find(place, sandbox);
      return none;
    }
    const isFromPlugin = ({ location }: Skill) =>
      folders.some((folder) => location?.startsWith(`${folder}/`));
    const problems: string[] = [];
    const [found, hooks, mcpServers] = await Promise.all([
      loadSkills(sandbox, { workingDir, plugins: folders }),
      loadHooks(sandbox, { workingDir: undefined, plugins: folders }),
      loadPluginServers(sandbox, folders, (sentence) => problems.push(sentence)),
    ]);
    const skills = found.filter(isFromPlugin);
    await behaviours.find(place, sandbox, { skills, hooks: hooks.config, servers: mcpServers });
    return {
      ...{ folders, skills },
      hooks: hooks.config,
      mcpServers,
      problems: [...hooks.problems, ...problems],
    };
  }

  close(): void {
    this.#closing.abort(new Error("The server is ending."));
  }
}

/** Clones plugins below the home folder; returns their folders. Throws as `cloneRepository`. */
export async function clonePlugins(
  sandbox: Sandbox,
  plugins: readonly Plugin[],
  identity: GitIdentity,
  signal: AbortSignal,
): Promise<string[]> {
  const folders: string[] = [];
  for (const plugin of plugins) {
    const { repository, ref: branch, path } = plugin;
    const target = pluginFolder(sandbox.spec.user.home, plugin);
    const request = { repository, target, branch, newBranch: null, full: false, identity };
    await cloneRepository(sandbox, request, signal);
    folders.push(posix.join(target, path));
  }
  return folders;
}

/** A context with the parts of plugins, which replace its parts of the same names. */
export function withPlugins(
  before: ProjectContext,
  { folders, skills, hooks, mcpServers, problems }: PluginParts,
): ProjectContext {
  const loadedFolders = new Set(before.plugins);
  // A plugin that is loaded again must not run its hooks twice.
  const newHooks = folders.every((folder) => loadedFolders.has(folder)) ? {} : hooks;
  return {
    ...before,
    skills: mergeSkills(skills, before.skills),
    ...(folders.length > 0 && { plugins: [...new Set([...loadedFolders, ...folders])] }),
    ...(Object.keys(newHooks).length > 0 && {
      pluginHooks: mergeHookConfigs([before.pluginHooks ?? {}, newHooks]),
    }),
    ...(Object.keys(mcpServers).length > 0 && { mcpServers: { ...before.mcpServers, ...mcpServers } }),
    ...(problems.length > 0 && { problems: [...(before.problems ?? []), ...problems] }),
  };
}
