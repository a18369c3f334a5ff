import type { Branch, Repository, SuggestedTask, UserGitInfo } from "@sandpiper/wire";
import type { Static } from "typebox";
import type { BranchQuery, ListPage, RepositoryQuery } from "../api.ts";
import type { Connection } from "../connection.ts";
import { contentsApi } from "../contents.ts";
import { orElse, unreadable } from "../or-else.ts";
import { mapConcurrently, parseNextLink, parsePageNumber, sliceGitPage } from "../pages.ts";
import type { GitProvider, GitService } from "../provider.ts";
import { parseRepositoryUrl, toRepositoryPath } from "../repository-name.ts";
import * as forms from "./schemas.ts";

/** The API v1 of Forgejo and Gitea. */
export const forgejo: GitService = {
  label: "Forgejo",
  api: (origin) => `${origin}/api/v1`,
  headers: (token) => ({ authorization: `token ${token}` }),
  connect: (connection) => new Forgejo(connection),
};

/** Pull requests to examine; each takes up to three requests. */
const maxPulls = 20;
/** Pages of branches per search, because the API cannot search branches. */
const maxBranchPages = 10;
const pageSize = 50;

class Forgejo implements GitProvider {
  readonly #connection: Connection;
  readonly folder: GitProvider["folder"];
  readonly file: GitProvider["file"];

  constructor(connection: Connection) {
    this.#connection = connection;
    ({ folder: this.folder, file: this.file } = contentsApi(connection));
  }

  async user(): Promise<UserGitInfo> {
    const { value } = await this.#connection.get(forms.ForgejoUser, "/user");
    const { id, login, avatar_url, full_name, email } = value;
    return {
      id: String(id),
      login,
      avatar_url: avatar_url ?? "",
      company: null,
      name: full_name || null,
      email: email || null,
    };
  }

  async organizations(): Promise<string[]> {
    const { value } = await this.#connection.get(forms.ForgejoOrganizations, "/user/orgs", {
      limit: pageSize,
    });
    return value.flatMap(({ name, username }) => name ?? username ?? []);
  }

  installations(): Promise<string[]> {
    return this.organizations();
  }

  async repositories(ask: RepositoryQuery): Promise<ListPage<Repository>> {
    const part = { limit: ask.limit, page: parsePageNumber(ask) };
    if (ask.query) return this.#search(ask.query, ask);
    const path =
      ask.installation === undefined ? "/user/repos" : `/orgs/${encodeURIComponent(ask.installation)}/repos`;
    const { value, headers } = await this.#connection.get(forms.ForgejoRepositories, path, part);
    return { items: value.map(toRepository), next: parseNextLink(headers) };
  }

  async #search(query: string, ask: RepositoryQuery): Promise<ListPage<Repository>> {
    const named =
      parseRepositoryUrl(query, this.#connection.host) ??
      (/^[\w.-]+\/[\w.-]+$/.test(query) ? query : undefined);
    if (named !== undefined) {
      const found = await orElse(this.repository(named), undefined, ["RepositoryNotFound"]);
      return { items: found ? [found] : [], next: null };
    }
    const [sort, order] = (ask.order ?? "stars-desc").split("-");
    const options = { q: query, sort, order, limit: ask.limit, page: parsePageNumber(ask) };
    const { value, headers } = await this.#connection.get(forms.ForgejoFound, "/repos/search", options);
    return { items: value.data.map(toRepository), next: parseNextLink(headers) };
  }

  async repository(name: string): Promise<Repository> {
    return toRepository(
      (await this.#connection.get(forms.ForgejoRepository, `/repos/${toRepositoryPath(name)}`)).value,
    );
  }

  async branches(ask: BranchQuery): Promise<ListPage<Branch>> {
    if (!ask.query) return this.#branchPage(ask.repository, parsePageNumber(ask), ask.limit);
    const wanted = ask.query.toLowerCase();
    const found: Branch[] = [];
    for (let page = 1, more = true; more && page <= maxBranchPages; page++) {
      const { items, next } = await this.#branchPage(ask.repository, page, pageSize);
      found.push(...items.filter(({ name }) => name.toLowerCase().includes(wanted)));
      more = next !== null;
    }
    return sliceGitPage(found, ask);
  }

  async #branchPage(repository: string, page: number, limit: number): Promise<ListPage<Branch>> {
    const path = `/repos/${toRepositoryPath(repository)}/branches`;
    const { value, headers } = await this.#connection.get(forms.ForgejoBranches, path, { page, limit });
    const items = value.map((branch) => ({
      name: branch.name,
      commit_sha: branch.commit.id,
      protected: branch.protected ?? false,
      last_push_date: branch.commit.timestamp ?? null,
    }));
    return { items, next: parseNextLink(headers) };
  }

  async suggestedTasks(): Promise<SuggestedTask[]> {
    const search = (query: Record<string, string | boolean | number>) =>
      this.#connection.get(forms.ForgejoIssues, "/repos/issues/search", { state: "open", ...query });
    const [pulls, issues] = await Promise.all([
      search({ type: "pulls", created: true, limit: maxPulls }),
      search({ type: "issues", assigned: true, limit: pageSize }),
    ]);
    const task = (
      { number, title, repository }: (typeof issues.value)[number],
      task_type: SuggestedTask["task_type"],
    ): SuggestedTask => ({
      ...{ git_provider: "forgejo", task_type, repo: repository.full_name, issue_number: number, title },
    });
    const problems = await mapConcurrently(pulls.value, async (pull) => {
      const problem = await orElse(
        this.#findProblem(pull.repository.full_name, pull.number),
        undefined,
        unreadable,
      );
      return problem ? [task(pull, problem)] : [];
    });
    return [...problems.flat(), ...issues.value.map((issue) => task(issue, "OPEN_ISSUE"))];
  }

  /** The most urgent problem of a pull request. */
  async #findProblem(repository: string, number: number): Promise<SuggestedTask["task_type"] | undefined> {
    const path = `/repos/${toRepositoryPath(repository)}`;
    const { value: pull } = await this.#connection.get(forms.ForgejoPull, `${path}/pulls/${number}`);
    if (pull.mergeable === false) return "MERGE_CONFLICTS";
    const status = await this.#connection.get(
      forms.ForgejoStatus,
      `${path}/commits/${encodeURIComponent(pull.head.sha)}/status`,
    );
    if (status.value.state === "failure" || status.value.state === "error") return "FAILING_CHECKS";
    const { value: reviews } = await this.#connection.get(
      forms.ForgejoReviews,
      `${path}/pulls/${number}/reviews`,
      {
        limit: pageSize,
      },
    );
    const asks = reviews.some(
      ({ state, dismissed, stale }) => state === "REQUEST_CHANGES" && !dismissed && !stale,
    );
    return asks ? "UNRESOLVED_COMMENTS" : undefined;
  }

  async changedAt(repository: string, path: string): Promise<string | undefined> {
    const { value } = await this.#connection.get(
      forms.ForgejoCommits,
      `/repos/${toRepositoryPath(repository)}/commits`,
      {
        path,
        limit: 1,
      },
    );
    return value[0]?.commit?.committer?.date ?? value[0]?.created ?? undefined;
  }
}

function toRepository(one: Static<typeof forms.ForgejoRepository>): Repository {
  return {
    id: String(one.id),
    full_name: one.full_name,
    git_provider: "forgejo",
    is_public: one.private === false,
    stargazers_count: one.stars_count ?? null,
    pushed_at: one.updated_at ?? null,
    main_branch: one.default_branch ?? null,
  };
}
