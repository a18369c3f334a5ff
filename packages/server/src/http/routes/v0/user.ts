import { parseSkill } from "@sandpiper/agent/skills/parse";
import {
  Branch,
  MicroagentContentResponse,
  MicroagentResponse,
  PaginatedBranches,
  ProviderType,
  providerTypes,
  Repository,
  type RepositoryOrder,
  repositoryOrders,
  StringEnum,
  SuggestedTask,
  UserGitInfo,
} from "@sandpiper/wire";
import { Type } from "typebox";
import type { GitHosting, ListPage, RepositoryQuery } from "../../../git/api.ts";
import { makeRoute } from "../../server/make-route.ts";
import type { App } from "../../server/services.ts";

const route = makeRoute(["git"], { errors: "error", failures: [400, 403, 404, 422, 502] });
const optionalText = (description: string) => Type.Optional(Type.String({ maxLength: 1_000, description }));
const requiredText = Type.String({ maxLength: 1_000 });
const perPage = (by: number) =>
  Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, default: by, description: "maximum items of the page" }),
  );
const page = Type.Optional(
  Type.Integer({ minimum: 1, maximum: 100_000, default: 1, description: "number of the page" }),
);
const selected_provider = Type.Optional(
  StringEnum(providerTypes, { description: "the provider; by default all of the user's" }),
);
const sort = optionalText(
  "stars, forks or updated; the user's own repositories are always sorted by last change",
);
const order = optionalText("asc or desc");
const installation_id = optionalText("an installation, workspace, group or organization");

/**
 * V0 reads of git providers (legacy-gui.md section 8), by default of all of the user's providers.
 */
export function userRoutes(app: App, { git }: { git: GitHosting }): void {
  app.get(
    "/api/user/info",
    route("Read the user at the git provider", { response: { 200: UserGitInfo } }),
    (request) => git.user(request.principal.userId),
  );
  app.get(
    "/api/user/installations",
    route("List installations, workspaces, groups or organizations", {
      querystring: Type.Object({ provider: ProviderType }),
      response: { 200: Type.Array(Type.String()) },
    }),
    (request) => git.installations(request.principal.userId, request.query.provider),
  );
  app.get(
    "/api/user/suggested-tasks",
    route("List pull requests and issues that need the user", {
      response: { 200: Type.Array(SuggestedTask) },
    }),
    (request) => git.suggestedTasks(request.principal.userId),
  );
  repositoryRoutes(app, git);
  branchRoutes(app, git);
  microagentRoutes(app, git);
}

function repositoryRoutes(app: App, git: GitHosting): void {
  const response = { 200: Type.Array(Repository) };
  app.get(
    "/api/user/repositories",
    route("List the user's repositories, last changed first; link_header has the next page", {
      querystring: Type.Object({ sort, selected_provider, page, per_page: perPage(30), installation_id }),
      response,
    }),
    async (request) => {
      const { selected_provider, page = 1, per_page = 30, installation_id } = request.query;
      const ask = { from: String(page), limit: per_page, installation: installation_id };
      const { items, next } = await listRepositories(git, request.principal.userId, selected_provider, ask);
      const link_header = next === null ? null : `</api/user/repositories?page=${page + 1}>; rel="next"`;
      return items.map((item) => ({ ...item, link_header }));
    },
  );
  app.get(
    "/api/user/search/repositories",
    route("Search for repositories", {
      querystring: Type.Object({ query: requiredText, per_page: perPage(5), sort, order, selected_provider }),
      response,
    }),
    async (request) => {
      const { query, per_page = 5, sort, order, selected_provider } = request.query;
      const ask = { query, limit: per_page, order: parseOrder(sort, order) };
      return (await listRepositories(git, request.principal.userId, selected_provider, ask)).items;
    },
  );
}

function branchRoutes(app: App, git: GitHosting): void {
  app.get(
    "/api/user/repository/branches",
    route("List branches of a repository", {
      querystring: Type.Object({
        repository: requiredText,
        page,
        per_page: perPage(30),
        selected_provider,
      }),
      response: { 200: PaginatedBranches },
    }),
    async (request) => {
      const { repository, page = 1, per_page = 30, selected_provider } = request.query;
      const { userId } = request.principal;
      const provider = selected_provider ?? (await git.findProvider(userId, repository));
      const { items, next } = await git.branches(userId, provider, {
        repository,
        from: String(page),
        limit: per_page,
      });
      return { branches: items, has_next_page: next !== null, current_page: page, per_page };
    },
  );
  app.get(
    "/api/user/search/branches",
    route("Search for branches of a repository", {
      querystring: Type.Object({
        repository: requiredText,
        query: requiredText,
        per_page: perPage(30),
        selected_provider,
      }),
      response: { 200: Type.Array(Branch) },
    }),
    async (request) => {
      const { repository, query, per_page = 30, selected_provider } = request.query;
      const { userId } = request.principal;
      const provider = selected_provider ?? (await git.findProvider(userId, repository));
      return (await git.branches(userId, provider, { repository, query, limit: per_page })).items;
    },
  );
}

/** The documented path has `owner/name` in one encoded segment; clients send two. */
function microagentRoutes(app: App, git: GitHosting): void {
  const list = <Params extends object>(params: Params) =>
    route("List the skill files of a repository", {
      ...params,
      response: { 200: Type.Array(MicroagentResponse) },
    });
  const read = <Params extends object>(params: Params) =>
    route("Read a skill file of a repository", {
      ...params,
      querystring: Type.Object({ file_path: requiredText }),
      response: { 200: MicroagentContentResponse },
    });
  const one = { params: Type.Object({ repository_name: requiredText }) };
  const two = { hide: true, params: Type.Object({ owner: requiredText, name: requiredText }) };
  const content = async (userId: string, repository: string, path: string) => {
    const { content, provider } = await git.microagent(userId, repository, path);
    const skill = parseSkill(path, content, "project");
    return {
      content: skill?.content ?? content,
      path,
      triggers: skill?.triggers ?? [],
      git_provider: provider,
    };
  };
  app.get("/api/user/repository/:repository_name/microagents", list(one), (request) =>
    git.microagents(request.principal.userId, request.params.repository_name),
  );
  app.get("/api/user/repository/:owner/:name/microagents", list(two), (request) =>
    git.microagents(request.principal.userId, `${request.params.owner}/${request.params.name}`),
  );
  app.get("/api/user/repository/:repository_name/microagents/content", read(one), (request) =>
    content(request.principal.userId, request.params.repository_name, request.query.file_path),
  );
  app.get("/api/user/repository/:owner/:name/microagents/content", read(two), (request) =>
    content(
      request.principal.userId,
      `${request.params.owner}/${request.params.name}`,
      request.query.file_path,
    ),
  );
}

/** Lists repositories of one provider, or of all that respond. */
async function listRepositories(
  git: GitHosting,
  userId: string,
  provider: Parameters<GitHosting["repositories"]>[1] | undefined,
  ask: RepositoryQuery,
): Promise<ListPage<Repository>> {
  const providers = await git.providers(userId);
  if (provider !== undefined || providers.length < 2) {
    return git.repositories(userId, provider ?? providers[0] ?? "github", ask);
  }
  const answers = await Promise.allSettled(providers.map((one) => git.repositories(userId, one, ask)));
  const lists = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (lists.length === 0 && failed) throw failed.reason;
  return {
    items: lists.flatMap(({ items }) => items),
    next: lists.find(({ next }) => next !== null)?.next ?? null,
  };
}

/** Ignores orders that only one provider supports, which legacy clients also send. */
function parseOrder(sort = "stars", order = "desc"): RepositoryOrder | undefined {
  return repositoryOrders.find((known) => known === `${sort}-${order}`);
}
