import { PlatformError } from "@sandpiper/core/errors";
import type { Outbound } from "@sandpiper/core/outbound/api";
import type { ProviderType, SuggestedTask } from "@sandpiper/wire";
import type { Secrets } from "../users/api.ts";
import { parseProviderHost } from "../users/provider-hosts.ts";
import type { BranchQuery, GitHosting, RepositoryQuery } from "./api.ts";
import { orElse } from "./or-else.ts";
import type { GitProvider } from "./provider.ts";
import { parseRepositoryName } from "./repository-name.ts";
import { createGitProvider, isSupported } from "./services.ts";

/** Skill folders of a repository. */
const skillFolders = [".openhands/skills", ".openhands/microagents"];

export class GitHostingService implements GitHosting {
  readonly #secrets: Pick<Secrets, "providers">;
  readonly #outbound: Outbound;

  constructor({ secrets, outbound }: { secrets: Pick<Secrets, "providers">; outbound: Outbound }) {
    this.#secrets = secrets;
    this.#outbound = outbound;
  }

  async providers(userId: string): Promise<ProviderType[]> {
    const tokens = await this.#secrets.providers(userId);
    return [...tokens.keys()].filter(isSupported);
  }

  async user(userId: string, provider?: ProviderType) {
    if (provider) return (await this.#client(userId, provider)).user();
    return this.#tryEach(userId, (client) => client.user());
  }

  async organizations(userId: string) {
    return this.#tryEach(userId, async (client, provider) => ({
      provider,
      organizations: await client.organizations(),
    }));
  }

  async installations(userId: string, provider: ProviderType) {
    return (await this.#client(userId, provider)).installations();
  }

  async repositories(userId: string, provider: ProviderType, ask: RepositoryQuery) {
    return (await this.#client(userId, provider)).repositories(ask);
  }

  async branches(userId: string, provider: ProviderType, ask: BranchQuery) {
    return (await this.#client(userId, provider)).branches(ask);
  }

  async suggestedTasks(userId: string): Promise<SuggestedTask[]> {
    const asked = (await this.#clients(userId)).map(({ client }) => client.suggestedTasks());
    const answers = await Promise.allSettled(asked);
    const lists = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
    const failed = answers.find((answer) => answer.status === "rejected");
    if (lists.length === 0 && failed) throw failed.reason;
    return lists.flat();
  }

  async findProvider(userId: string, repository: string): Promise<ProviderType> {
    return (await this.#findHome(userId, repository)).provider;
  }

  async microagents(userId: string, repository: string) {
    const { client } = await this.#findHome(userId, repository);
    const lists = listSkillFolders(repository).map(async (folder) => {
      const files = (await client.folder(repository, folder)).filter(
        ({ name }) => /\.md$/i.test(name) && !/^readme\.md$/i.test(name),
      );
      const changed = files.length > 0 ? await client.changedAt(repository, folder) : undefined;
      const created_at = toTimestamp(changed);
      return files.map(({ name, path }) => ({ name: name.replace(/\.md$/i, ""), path, created_at }));
    });
    return (await Promise.all(lists)).flat();
  }

  async microagent(userId: string, repository: string, path: string) {
    const inFolder = listSkillFolders(repository).some((folder) => path.startsWith(`${folder}/`));
    if (!inFolder || !/\.md$/i.test(path) || path.split("/").includes(".."))
      throw new PlatformError("SkillFileMissing", { repository, path });
    const { client, provider } = await this.#findHome(userId, repository);
    const content = await client.file(repository, path);
    if (content === undefined) throw new PlatformError("SkillFileMissing", { repository, path });
    return { provider, content };
  }

  async checkToken(
    provider: ProviderType,
    { token, host }: { token: string; host: string | null },
  ): Promise<void> {
    const stored = parseProviderHost(host);
    const user = createGitProvider(this.#outbound, provider, { token, host: stored }).user();
    if (await orElse(user, undefined, ["RepositoryNotFound"])) return;
    throw new PlatformError("GitHostForeign", { host: String(stored), provider });
  }

  async #client(userId: string, provider: ProviderType): Promise<GitProvider> {
    const token = (await this.#secrets.providers(userId)).get(provider);
    if (!token && isSupported(provider)) throw new PlatformError("GitTokenMissing");
    return createGitProvider(this.#outbound, provider, token ?? { token: "", host: null });
  }

  async #clients(userId: string): Promise<{ provider: ProviderType; client: GitProvider }[]> {
    const tokens = await this.#secrets.providers(userId);
    const all = [...tokens]
      .filter(([provider]) => isSupported(provider))
      .map(([provider, token]) => ({
        provider,
        client: createGitProvider(this.#outbound, provider, token),
      }));
    if (all.length === 0) throw new PlatformError("GitTokenMissing");
    return all;
  }

  /** The result of the first provider that works; throws the last failure when none does. */
  async #tryEach<T>(
    userId: string,
    work: (client: GitProvider, provider: ProviderType) => Promise<T>,
  ): Promise<T> {
    let failure: unknown;
    for (const { provider, client } of await this.#clients(userId)) {
      try {
        return await work(client, provider);
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  /** The provider with a repository. Throws RepositoryNotFound, or the failure of a provider. */
  async #findHome(
    userId: string,
    repository: string,
  ): Promise<{ provider: ProviderType; client: GitProvider }> {
    parseRepositoryName(repository);
    let failure: unknown;
    for (const home of await this.#clients(userId)) {
      try {
        await home.client.repository(repository);
        return home;
      } catch (error) {
        if (!(error instanceof PlatformError && error.code === "RepositoryNotFound")) failure ??= error;
      }
    }
    throw failure ?? new PlatformError("RepositoryInvisible", { repository });
  }
}

/** A repository named `.openhands` has its skills at the root too. */
function listSkillFolders(repository: string): string[] {
  return repository.endsWith("/.openhands") ? [...skillFolders, "skills", "microagents"] : skillFolders;
}

function toTimestamp(text: string | undefined): string {
  const time = text === undefined ? Number.NaN : Date.parse(text);
  return new Date(Number.isNaN(time) ? 0 : time).toISOString();
}
