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
 * Access to the git providers of a user with stored tokens (app-server.md section 7). Methods throw
 * GitTokenRequired, ProviderTokenInvalid, GitProviderBusy, GitProviderFailed, RepositoryNotFound
 * and GitUnsupported.
 */
export interface GitHosting {
  /** Supported providers with a token of the user. */
  providers(userId: string): Promise<ProviderType[]>;
  /** The user of a provider, or of the first token that works. */
  user(userId: string, provider?: ProviderType): Promise<UserGitInfo>;
  /** Names of organizations, groups or workspaces of the first provider that responds. */
  organizations(userId: string): Promise<{ provider: ProviderType; organizations: string[] }>;
  /** GitHub App installations, Bitbucket workspaces, GitLab groups or Forgejo organizations. */
  installations(userId: string, provider: ProviderType): Promise<string[]>;
  repositories(userId: string, provider: ProviderType, ask: RepositoryQuery): Promise<ListPage<Repository>>;
  branches(userId: string, provider: ProviderType, ask: BranchQuery): Promise<ListPage<Branch>>;
  /** Assigned issues, and pull requests with problems, of all providers that respond. */
  suggestedTasks(userId: string): Promise<SuggestedTask[]>;
  /** The provider whose token can see the repository. Throws RepositoryNotFound. */
  findProvider(userId: string, repository: string): Promise<ProviderType>;
  /** Skill files (`.openhands/skills`, `.openhands/microagents`) of a repository's main branch. */
  microagents(userId: string, repository: string): Promise<MicroagentResponse[]>;
  /** The text of a skill file. Throws FileNotFound. */
  microagent(
    userId: string,
    repository: string,
    path: string,
  ): Promise<{ provider: ProviderType; content: string }>;
  /**
   * Verifies a token before it is stored. `host` is as users write it; null: the public service.
   */
  checkToken(provider: ProviderType, token: { token: string; host: string | null }): Promise<void>;
}

/** A page of a list and the cursor of the next page. */
export interface ListPage<T> {
  items: T[];
  next: string | null;
}

/** The start (undefined: the beginning) and the length of a page. */
export interface GitPageQuery {
  /** `next` of the previous page: a page number or an opaque cursor. */
  from?: string | undefined;
  limit: number;
}

export interface RepositoryQuery extends GitPageQuery {
  /**
   * Words of the name, `owner/name`, or a URL; default: the user's repositories, last changed
   * first.
   */
  query?: string | undefined;
  /** One of `installations`. */
  installation?: string | undefined;
  /** Used only with a query. */
  order?: RepositoryOrder | undefined;
}

export interface BranchQuery extends GitPageQuery {
  /** `owner/name`; GitLab also with subgroups. */
  repository: string;
  /** Part of the branch's name. */
  query?: string | undefined;
}
