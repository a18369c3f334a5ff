import type { Branch, Repository, UserGitInfo } from "@sandpiper/wire";
import type { Static } from "typebox";
import type { BranchQuery, ListPage, RepositoryQuery } from "../api.ts";
import type { Connection, Query } from "../connection.ts";
import { orElse } from "../or-else.ts";
import { parsePageNumber } from "../pages.ts";
import type { GitProvider, GitService } from "../provider.ts";
import { parseRepositoryName, parseRepositoryUrl } from "../repository-name.ts";
import * as forms from "./schemas.ts";
import { tasksQuery, toTasks } from "./tasks.ts";

/** GitLab's API v4, and GraphQL for merge requests with their pipelines and discussions. */
export const gitlab: GitService = {
  label: "GitLab",
  api: (origin) => `${origin}/api/v4`,
  // Works for personal, group and OAuth tokens.
  headers: (token) => ({ authorization: `Bearer ${token}` }),
  connect: (connection) => new GitLab(connection),
};

/** GitLab cannot sort by forks. */
const orders: Record<string, string> = {
  stars: "star_count",
  forks: "star_count",
  updated: "last_activity_at",
};

class GitLab implements GitProvider {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async user(): Promise<UserGitInfo> {
    const { value } = await this.#connection.get(forms.GitlabUser, "/user");
    const { id, username, avatar_url, organization, name = null, email = null } = value;
    return {
      id: String(id),
      login: username,
      avatar_url: avatar_url ?? "",
      company: organization || null,
      name,
      email,
    };
  }

  async organizations(): Promise<string[]> {
    const { value } = await this.#connection.get(forms.GitlabGroups, "/groups", {
      top_level_only: true,
      min_access_level: 10,
      per_page: 100,
    });
    return value.map((group) => group.full_path);
  }

  installations(): Promise<string[]> {
    return this.organizations();
  }

  async repositories(ask: RepositoryQuery): Promise<ListPage<Repository>> {
    const named = ask.query === undefined ? undefined : parseRepositoryUrl(ask.query, this.#connection.host);
    if (named !== undefined) {
      const found = await orElse(this.repository(named), undefined, ["RepositoryNotFound"]);
      return { items: found ? [found] : [], next: null };
    }
    const [key = "", sort] = (ask.query ? (ask.order ?? "stars-desc") : "updated-desc").split("-");
    const { installation } = ask;
    return this.#projects(
      installation === undefined ? "/projects" : `/groups/${encodeURIComponent(installation)}/projects`,
      ask,
      {
        ...(installation === undefined ? { membership: true } : { include_subgroups: true }),
        ...{ order_by: orders[key], sort, search: ask.query || undefined },
        search_namespaces: ask.query?.includes("/") && installation === undefined ? true : undefined,
      },
    );
  }

  async #projects(path: string, ask: RepositoryQuery, query: Query): Promise<ListPage<Repository>> {
    const part = { per_page: ask.limit, page: parsePageNumber(ask) };
    const { value, headers } = await this.#connection.get(forms.GitlabProjects, path, { ...query, ...part });
    return { items: value.map(toRepository), next: nextPage(headers) };
  }

  async repository(name: string): Promise<Repository> {
    return toRepository((await this.#connection.get(forms.GitlabProject, projectPath(name))).value);
  }

  async branches({ repository, query, ...part }: BranchQuery): Promise<ListPage<Branch>> {
    const asked = { search: query || undefined, per_page: part.limit, page: parsePageNumber(part) };
    const { value, headers } = await this.#connection.get(
      forms.GitlabBranches,
      `${projectPath(repository)}/repository/branches`,
      asked,
    );
    const items = value.map((branch) => ({
      name: branch.name,
      commit_sha: branch.commit.id,
      protected: branch.protected ?? false,
      last_push_date: branch.commit.committed_date ?? null,
    }));
    return { items, next: nextPage(headers) };
  }

  async suggestedTasks() {
    const url = this.#connection.api.replace(/\/v4$/, "/graphql");
    const [requests, issues] = await Promise.all([
      this.#connection.graphql(forms.GitlabTasks, url, tasksQuery),
      this.#connection.get(forms.GitlabIssues, "/issues", {
        scope: "assigned_to_me",
        state: "opened",
        per_page: 50,
      }),
    ]);
    return toTasks(requests, issues.value);
  }

  async folder(repository: string, path: string) {
    const asked = this.#connection.get(forms.GitlabTree, `${projectPath(repository)}/repository/tree`, {
      path,
      per_page: 100,
    });
    const entries = (await orElse(asked, undefined, ["RepositoryNotFound"]))?.value ?? [];
    return entries
      .filter(({ type }) => type === "blob")
      .map((entry) => ({ name: entry.name, path: entry.path }));
  }

  async changedAt(repository: string, path: string): Promise<string | undefined> {
    const { value } = await this.#connection.get(
      forms.GitlabCommits,
      `${projectPath(repository)}/repository/commits`,
      {
        path,
        per_page: 1,
      },
    );
    return value[0]?.committed_date ?? undefined;
  }

  async file(repository: string, path: string): Promise<string | undefined> {
    const url = `${projectPath(repository)}/repository/files/${encodeURIComponent(path)}/raw`;
    return orElse(this.#connection.text(url, { ref: "HEAD" }), undefined, ["RepositoryNotFound"]);
  }
}

function projectPath(name: string): string {
  return `/projects/${encodeURIComponent(parseRepositoryName(name).join("/"))}`;
}

function nextPage(headers: Headers): string | null {
  const next = headers.get("x-next-page") ?? "";
  return /^\d{1,6}$/.test(next) ? next : null;
}

function toRepository(one: Static<typeof forms.GitlabProject>): Repository {
  return {
    id: String(one.id),
    full_name: one.path_with_namespace,
    git_provider: "gitlab",
    is_public: one.visibility === "public",
    stargazers_count: one.star_count ?? null,
    pushed_at: one.last_activity_at ?? null,
    owner_type: one.namespace?.kind === "group" ? "organization" : "user",
    main_branch: one.default_branch ?? null,
  };
}
