import type { Branch, Repository, UserGitInfo } from "@sandpiper/wire";
import type { Static } from "typebox";
import type { BranchQuery, GitPageQuery, ListPage, RepositoryQuery } from "../api.ts";
import type { Connection } from "../connection.ts";
import { orElse } from "../or-else.ts";
import { mapConcurrently, parsePageNumber, sliceGitPage } from "../pages.ts";
import type { GitProvider, GitService } from "../provider.ts";
import { parseRepositoryUrl, toFilePath, toRepositoryPath } from "../repository-name.ts";
import * as forms from "./schemas.ts";
import { listTasks } from "./tasks.ts";

/** Bitbucket Cloud's API 2.0. It has no lists across workspaces: each workspace is queried. */
export const bitbucket: GitService = {
  label: "Bitbucket",
  api: (origin, isPublic) => (isPublic ? "https://api.bitbucket.org/2.0" : `${origin}/2.0`),
  /**
   * `name:secret` is an app password or an API token with its user; other tokens are access tokens.
   */
  headers: (token) => ({
    authorization: token.includes(":") ? `Basic ${Buffer.from(token).toString("base64")}` : `Bearer ${token}`,
  }),
  connect: (connection) => new Bitbucket(connection),
};

const maxWorkspaces = 20;
const maxRepositoriesPerWorkspace = 100;

class Bitbucket implements GitProvider {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async user(): Promise<UserGitInfo> {
    const { value } = await this.#connection.get(forms.BitbucketUser, "/user");
    const emails = await orElse(this.#connection.get(forms.BitbucketEmails, "/user/emails"), undefined, [
      "GitTokenTooWeak",
      "RepositoryNotFound",
    ]);
    return {
      id: value.account_id ?? value.uuid,
      login: value.username ?? value.nickname ?? value.uuid,
      avatar_url: value.links?.avatar?.href ?? "",
      company: null,
      name: value.display_name ?? null,
      email: emails?.value.values.find((one) => one.is_primary)?.email ?? null,
    };
  }

  organizations(): Promise<string[]> {
    return this.installations();
  }

  async installations(): Promise<string[]> {
    const { value } = await this.#connection.get(forms.BitbucketWorkspaces, "/user/workspaces", {
      pagelen: 100,
    });
    return value.values.map(({ workspace }) => workspace.slug);
  }

  async repositories(ask: RepositoryQuery): Promise<ListPage<Repository>> {
    const named = ask.query === undefined ? undefined : parseRepositoryUrl(ask.query, this.#connection.host);
    if (named !== undefined) {
      const found = await orElse(this.repository(named), undefined, ["RepositoryNotFound"]);
      return { items: found ? [found] : [], next: null };
    }
    const [, owner, name] = /^([\w.-]+)\/(.*)$/s.exec(ask.query ?? "") ?? [];
    const workspace = ask.installation ?? owner;
    const q = nameFilter(owner !== undefined && workspace === owner ? name : ask.query);
    // Bitbucket does not count stars or forks.
    const sort = ask.order === "updated-asc" ? "updated_on" : "-updated_on";
    if (workspace !== undefined) return this.#listWorkspace(workspace, { q, sort }, ask);
    const workspaces = (await this.installations()).slice(0, maxWorkspaces);
    const lists = await mapConcurrently(workspaces, (one) =>
      this.#listWorkspace(one, { q, sort }, { limit: maxRepositoriesPerWorkspace }),
    );
    const all = lists
      .flatMap(({ items }) => items)
      .sort((a, b) => (b.pushed_at ?? "").localeCompare(a.pushed_at ?? ""));
    if (sort === "updated_on") all.reverse();
    return slicePageByNumber(all, ask);
  }

  async #listWorkspace(
    workspace: string,
    query: { q: string | undefined; sort: string },
    part: GitPageQuery,
  ): Promise<ListPage<Repository>> {
    const path = `/repositories/${encodeURIComponent(workspace)}`;
    const asked = { ...query, role: "member", pagelen: part.limit, page: parsePageNumber(part) };
    const { value } = await this.#connection.get(forms.BitbucketRepositories, path, asked);
    return { items: value.values.map(toRepository), next: nextPage(value) };
  }

  async repository(name: string): Promise<Repository> {
    return toRepository(
      (await this.#connection.get(forms.BitbucketRepository, `/repositories/${toRepositoryPath(name)}`))
        .value,
    );
  }

  /** Only administrators may read branch protection, so `protected` is false. */
  async branches({ repository, query, ...part }: BranchQuery): Promise<ListPage<Branch>> {
    const path = `/repositories/${toRepositoryPath(repository)}/refs/branches`;
    const asked = { q: nameFilter(query), pagelen: part.limit, page: parsePageNumber(part) };
    const { value } = await this.#connection.get(forms.BitbucketBranches, path, asked);
    const items = value.values.map(({ name, target }) => ({
      ...{ name, commit_sha: target.hash, protected: false, last_push_date: target.date ?? null },
    }));
    return { items, next: nextPage(value) };
  }

  async suggestedTasks() {
    const [{ value: user }, workspaces] = await Promise.all([
      this.#connection.get(forms.BitbucketUser, "/user"),
      this.installations(),
    ]);
    return listTasks(this.#connection, user.uuid, workspaces.slice(0, maxWorkspaces));
  }

  async folder(repository: string, path: string) {
    const asked = this.#source(repository, path).then((source) =>
      this.#connection.get(forms.BitbucketFolder, `${source}/`, { pagelen: 100 }),
    );
    const entries = (await orElse(asked, undefined, ["RepositoryNotFound"]))?.value.values ?? [];
    return entries
      .filter(({ type }) => type === "commit_file")
      .map((entry) => ({ name: entry.path.split("/").at(-1)!, path: entry.path }));
  }

  async changedAt(repository: string, path: string): Promise<string | undefined> {
    const { value } = await this.#connection.get(
      forms.BitbucketCommits,
      `/repositories/${toRepositoryPath(repository)}/commits`,
      {
        path,
        pagelen: 1,
      },
    );
    return value.values[0]?.date ?? undefined;
  }

  async file(repository: string, path: string): Promise<string | undefined> {
    const asked = this.#source(repository, path).then((source) => this.#connection.text(source));
    return orElse(asked, undefined, ["RepositoryNotFound"]);
  }

  /** The URL path of a file of the main branch. */
  async #source(repository: string, path: string): Promise<string> {
    const { main_branch } = await this.repository(repository);
    return `/repositories/${toRepositoryPath(repository)}/src/${encodeURIComponent(main_branch ?? "HEAD")}/${toFilePath(path)}`;
  }
}

/** A filter for part of a name in Bitbucket's query language. */
function nameFilter(text: string | undefined): string | undefined {
  return text ? `name ~ ${JSON.stringify(text)}` : undefined;
}

/** The page number in Bitbucket's URL of the next page. */
function nextPage({ next }: { next?: string | null }): string | null {
  const page = URL.parse(next ?? "")?.searchParams.get("page") ?? "";
  return /^\d{1,6}$/.test(page) ? page : null;
}

/** Slices a list in memory with page numbers as cursors, like the lists of one workspace. */
function slicePageByNumber<T>(items: readonly T[], ask: GitPageQuery): ListPage<T> {
  const page = parsePageNumber(ask);
  const { items: some, next } = sliceGitPage(items, {
    from: String((page - 1) * ask.limit),
    limit: ask.limit,
  });
  return { items: some, next: next === null ? null : String(page + 1) };
}

function toRepository(one: Static<typeof forms.BitbucketRepository>): Repository {
  return {
    id: one.uuid,
    full_name: one.full_name,
    git_provider: "bitbucket",
    is_public: one.is_private === false,
    pushed_at: one.updated_on ?? null,
    owner_type: "organization",
    main_branch: one.mainbranch?.name ?? null,
  };
}
