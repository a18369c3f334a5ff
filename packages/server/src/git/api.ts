import type {
  Branch,
  MicroagentResponse,
  ProviderType,
  Repository,
  RepositoryOrder,
  SuggestedTask,
  UserGitInfo,
} from "@sandpiper/wire";

/**
 * What users see of the services that host their repositories, with the tokens that they stored (app-server.md section 7).
 * Everything throws PlatformError: GitTokenRequired where the user has no token for it, ProviderTokenInvalid where the provider refuses
 * it, GitProviderBusy and GitProviderFailed, RepositoryNotFound, GitUnsupported for services that are not supported.
 */
export interface GitHosting {
  /** The providers that the user has tokens for and that are supported. */
  providers(userId: string): ProviderType[];
  /** The user behind the first token that works, or the one of a provider. */
  user(userId: string, provider?: ProviderType): Promise<UserGitInfo>;
  /** Names of organizations, groups or workspaces of the first provider that answers. */
  organizations(userId: string): Promise<{ provider: ProviderType; organizations: string[] }>;
  /** What `installationId` can be: installations of a GitHub App, workspaces of Bitbucket, groups of GitLab, organizations of Forgejo. */
  installations(userId: string, provider: ProviderType): Promise<string[]>;
  repositories(userId: string, provider: ProviderType, ask: RepositoryQuery): Promise<ListPage<Repository>>;
  branches(userId: string, provider: ProviderType, ask: BranchQuery): Promise<ListPage<Branch>>;
  /** Open pull requests with something to do and issues that are assigned, of all providers that answer. */
  suggestedTasks(userId: string): Promise<SuggestedTask[]>;
  /** The provider on which the user's token sees a repository. Throws RepositoryNotFound. */
  findProvider(userId: string, repository: string): Promise<ProviderType>;
  /** Skill files (`.openhands/skills`, `.openhands/microagents`) of a repository's main branch. */
  microagents(userId: string, repository: string): Promise<MicroagentResponse[]>;
  /** The text of one of them. Throws FileNotFound. */
  microagent(
    userId: string,
    repository: string,
    path: string,
  ): Promise<{ provider: ProviderType; content: string }>;
  /** Tries a token that is not stored yet. `host` as users write it; null for the provider's public service. */
  checkToken(provider: ProviderType, token: { token: string; host: string | null }): Promise<void>;
}

/** A part of a list, and the mark of the next part. */
export interface ListPage<T> {
  items: T[];
  next: string | null;
}

/** Where a part of a list begins (undefined: at its start) and how long it may be. */
export interface PageQuery {
  /** A `next` of the part before; a page number where the provider counts pages. */
  from?: string | undefined;
  limit: number;
}

export interface RepositoryQuery extends PageQuery {
  /** Words of the name, `owner/name`, or the repository's address. Without it, the repositories of the user, the last changed first. */
  query?: string | undefined;
  /** One of `installations`. */
  installation?: string | undefined;
  /** Counts only with a query. */
  order?: RepositoryOrder | undefined;
}

export interface BranchQuery extends PageQuery {
  /** `owner/name`; GitLab also with subgroups. */
  repository: string;
  /** Part of the branch's name. */
  query?: string | undefined;
}
