import type { CallOptions } from "../connection.ts";
import type { PageOf, PageQuery } from "../pages.ts";
import type {
  Branch,
  EditResponse,
  GitOrganizationsResponse,
  ProviderTokens,
  ProviderType,
  Repository,
  RepositoryOrder,
  SuggestedTask,
  UserGitInfo,
} from "../types.ts";
import { Group } from "./group.ts";

const base = "/api/v1/git";
const tokens = "/api/v1/secrets/git-providers";

interface OfProvider extends PageQuery {
  provider: ProviderType;
}

/** Git providers of the user: tokens, repositories, branches. `Project` has the work itself. */
export class Git extends Group {
  /** Sets the complete set of providers; an absent token keeps the stored one. */
  setTokens(providers: ProviderTokens, options?: CallOptions): Promise<EditResponse> {
    return this.connection.post(tokens, providers, options);
  }

  removeTokens(options?: CallOptions): Promise<EditResponse> {
    return this.connection.json("DELETE", tokens, options);
  }

  /** The account of the user at a provider. */
  account(options?: CallOptions): Promise<UserGitInfo> {
    return this.connection.get("/api/v1/users/git-info", {}, options);
  }

  organizations(options?: CallOptions): Promise<GitOrganizationsResponse> {
    return this.connection.get("/api/v1/users/git-organizations", {}, options);
  }

  /** Installations, workspaces, groups or organizations. */
  installations(query: OfProvider, options?: CallOptions): Promise<PageOf<string>> {
    return this.connection.get(`${base}/installations/search`, { ...query }, options);
  }

  repositories(
    query: OfProvider & { query?: string; installation_id?: string; sort_order?: RepositoryOrder },
    options?: CallOptions,
  ): Promise<PageOf<Repository>> {
    return this.connection.get(`${base}/repositories/search`, { ...query }, options);
  }

  branches(
    query: OfProvider & { repository: string; query: string },
    options?: CallOptions,
  ): Promise<PageOf<Branch>> {
    return this.connection.get(`${base}/branches/search`, { ...query }, options);
  }

  suggestedTasks(query?: PageQuery, options?: CallOptions): Promise<PageOf<SuggestedTask>> {
    return this.connection.get(`${base}/suggested-tasks/search`, { ...query }, options);
  }
}
