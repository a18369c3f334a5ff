import { PlatformError } from "@sandpiper/core/errors";
import type { Branch, Repository, UserGitInfo } from "@sandpiper/wire";
import type { Static } from "typebox";
import type { BranchQuery, ListPage, RepositoryQuery } from "../api.ts";
import type { Connection } from "../connection.ts";
import { contentsApi } from "../contents.ts";
import { orElse } from "../or-else.ts";
import { parseNextLink, parsePageNumber } from "../pages.ts";
import type { GitProvider, GitService } from "../provider.ts";
import { parseRepositoryName, parseRepositoryUrl, toRepositoryPath } from "../repository-name.ts";
import * as forms from "./schemas.ts";
import { tasksQuery, toTasks } from "./tasks.ts";

/** GitHub's REST API, and GraphQL where REST would need a request per item. */
export const github: GitService = {
  label: "GitHub",
  api(origin, isPublic) {
    if (isPublic) return "https://api.github.com";
    return origin.endsWith(".ghe.com") ? origin.replace("https://", "https://api.") : `${origin}/api/v3`;
  },
  headers: (token) => ({
    authorization: `Bearer ${token}`,
    accept: "application/vnd.github+json",
    "x-github-api-version": "2022-11-28",
  }),
  connect: (connection) => new GitHub(connection),
};

const branchQuery = `query Branches($owner: String!, $name: String!, $query: String!, $first: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    refs(refPrefix: "refs/heads/", query: $query, first: $first, after: $after) {
      nodes { name target { oid ... on Commit { committedDate } } branchProtectionRule { id } }
      pageInfo { hasNextPage endCursor }
    }
  }
}`;

class GitHub implements GitProvider {
  readonly #connection: Connection;
  readonly folder: GitProvider["folder"];
  readonly file: GitProvider["file"];

  readonly #graphql: string;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.#graphql = `${connection.api.replace(/\/v3$/, "")}/graphql`;
    ({ folder: this.folder, file: this.file } = contentsApi(connection));
  }

  async user(): Promise<UserGitInfo> {
    const { value } = await this.#connection.get(forms.GithubUser, "/user");
    const { id, login, avatar_url, company = null, name = null, email = null } = value;
    return { id: String(id), login, avatar_url: avatar_url ?? "", company, name, email };
  }

  async organizations(): Promise<string[]> {
    const { value } = await this.#connection.get(forms.GithubOrganizations, "/user/orgs", { per_page: 100 });
    return value.map(({ login }) => login);
  }

  /** Only tokens of GitHub Apps may list installations. */
  async installations(): Promise<string[]> {
    const asked = this.#connection.get(forms.GithubInstallations, "/user/installations", { per_page: 100 });
    const found = await orElse(asked, undefined, ["GitTokenTooWeak", "RepositoryNotFound"]);
    return found?.value.installations.map(({ id }) => String(id)) ?? [];
  }

  async repositories(ask: RepositoryQuery): Promise<ListPage<Repository>> {
    const part = { per_page: ask.limit, page: parsePageNumber(ask) };
    if (ask.query) return this.#search(ask.query, ask);
    if (ask.installation === undefined) {
      const { value, headers } = await this.#connection.get(forms.GithubRepositories, "/user/repos", {
        sort: "pushed",
        ...part,
      });
      return { items: value.map(toRepository), next: parseNextLink(headers) };
    }
    if (!/^\d{1,18}$/.test(ask.installation)) throw new PlatformError("GithubInstallationInvalid");
    const path = `/user/installations/${ask.installation}/repositories`;
    const { value, headers } = await this.#connection.get(forms.GithubInstalled, path, part);
    return { items: value.repositories.map(toRepository), next: parseNextLink(headers) };
  }

  async #search(query: string, ask: RepositoryQuery): Promise<ListPage<Repository>> {
    const named = parseRepositoryUrl(query, this.#connection.host);
    if (named !== undefined) {
      const found = await orElse(this.repository(named), undefined, ["RepositoryNotFound"]);
      return { items: found ? [found] : [], next: null };
    }
    const [sort, order] = (ask.order ?? "stars-desc").split("-");
    const options = { sort, order, per_page: ask.limit, page: parsePageNumber(ask) };
    const q = await this.#searchText(query);
    // GitHub rejects a search with an unknown owner, or beyond the thousandth result, as a bad
    // request.
    const found = await orElse(
      this.#connection.get(forms.GithubFound, "/search/repositories", { q, ...options }),
      undefined,
      ["BadRequest"],
    );
    return {
      items: found?.value.items.map(toRepository) ?? [],
      next: found ? parseNextLink(found.headers) : null,
    };
  }

  /**
   * Searches the owner in the query, else the user's and the user's organizations' repositories.
   */
  async #searchText(query: string): Promise<string> {
    const [, owner, name] = /^([\w.-]+)\/(.*)$/s.exec(query) ?? [];
    if (owner !== undefined) return `${name} in:name fork:true user:${owner}`.trim();
    const [{ login }, organizations] = await Promise.all([this.user(), this.organizations()]);
    const owners = [`user:${login}`, ...organizations.slice(0, 50).map((name) => `org:${name}`)];
    return `${query} in:name fork:true ${owners.join(" ")}`;
  }

  async repository(name: string): Promise<Repository> {
    return toRepository(
      (await this.#connection.get(forms.GithubRepository, `/repos/${toRepositoryPath(name)}`)).value,
    );
  }

  async branches(ask: BranchQuery): Promise<ListPage<Branch>> {
    if (ask.query) return this.#searchBranches(ask.repository, ask.query, ask);
    const path = `/repos/${toRepositoryPath(ask.repository)}/branches`;
    const { value, headers } = await this.#connection.get(forms.GithubBranches, path, {
      per_page: ask.limit,
      page: parsePageNumber(ask),
    });
    const items = value.map((branch) => ({
      name: branch.name,
      commit_sha: branch.commit.sha,
      protected: branch.protected ?? false,
    }));
    return { items, next: parseNextLink(headers) };
  }

  async #searchBranches(
    repository: string,
    query: string,
    { from, limit }: BranchQuery,
  ): Promise<ListPage<Branch>> {
    toRepositoryPath(repository);
    const [owner, name] = parseRepositoryName(repository);
    const variables = { owner, name, query, first: limit, after: from ?? null };
    const answer = await this.#connection.graphql(forms.GithubRefs, this.#graphql, branchQuery, variables);
    const refs = answer.repository?.refs;
    if (!refs) return { items: [], next: null };
    const items = refs.nodes.flatMap((ref) =>
      ref.target
        ? [
            {
              name: ref.name,
              commit_sha: ref.target.oid,
              protected: !!ref.branchProtectionRule,
              last_push_date: ref.target.committedDate ?? null,
            },
          ]
        : [],
    );
    return { items, next: refs.pageInfo.hasNextPage ? refs.pageInfo.endCursor : null };
  }

  async suggestedTasks() {
    const issues = "is:open is:issue assignee:@me archived:false sort:updated-desc";
    return toTasks(await this.#connection.graphql(forms.GithubTasks, this.#graphql, tasksQuery, { issues }));
  }

  async changedAt(repository: string, path: string): Promise<string | undefined> {
    const { value } = await this.#connection.get(
      forms.GithubCommits,
      `/repos/${toRepositoryPath(repository)}/commits`,
      {
        path,
        per_page: 1,
      },
    );
    return value[0]?.commit.committer?.date ?? undefined;
  }
}

function toRepository(one: Static<typeof forms.GithubRepository>): Repository {
  return {
    id: String(one.id),
    full_name: one.full_name,
    git_provider: "github",
    is_public: one.private === false,
    stargazers_count: one.stargazers_count ?? null,
    pushed_at: one.pushed_at ?? null,
    owner_type: one.owner?.type === "Organization" ? "organization" : "user",
    main_branch: one.default_branch ?? null,
  };
}
