import type { AppConversationStartRequest, PluginSpec, ProviderType } from "@sandpiper/wire";
import type { Secrets } from "../../users/api.ts";
import { type Plugin, parsePlugin } from "../project/plugins.ts";
import { type ProjectRepository, resolveRepository } from "../project/repository.ts";

/** The repository that a start names, as its request or its configuration has it. */
export interface NamedRepository {
  repository: string | null | undefined;
  provider: string | null | undefined;
}

/** What a start clones into its sandbox. */
export interface StartSources {
  /** Cloned into the working directory. */
  repository: ProjectRepository | undefined;
  plugins: Plugin[];
}

/** The repository of a request, which a suggested task may name. */
export function findRepository({
  selected_repository,
  git_provider,
  suggested_task: task,
}: Pick<
  AppConversationStartRequest,
  "selected_repository" | "git_provider" | "suggested_task"
>): NamedRepository {
  const repository = selected_repository || task?.repo;
  return { repository, provider: git_provider ?? (repository ? task?.git_provider : undefined) };
}

/** Throws InvalidParameter. */
export function resolveSources(
  tokens: Awaited<ReturnType<Secrets["providers"]>>,
  { repository, provider }: NamedRepository,
  plugins: readonly PluginSpec[],
): StartSources {
  const chosen = (provider ?? null) as ProviderType | null;
  return {
    repository: repository ? resolveRepository(repository, chosen, tokens) : undefined,
    plugins: plugins.map((plugin) => parsePlugin(plugin, tokens)),
  };
}

/** Hosts with ports from which a start clones. */
export function sourceHosts({ repository, plugins }: StartSources): string[] {
  const sources = [repository, ...plugins.map((plugin) => plugin.repository)].filter(
    (one) => one !== undefined,
  );
  return sources.map(({ url }) => {
    const { hostname, port, protocol } = new URL(url);
    return `${hostname}:${port || (protocol === "http:" ? 80 : 443)}`;
  });
}
