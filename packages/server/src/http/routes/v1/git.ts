import { PlatformError } from "@sandpiper/core/errors";
import {
  BranchPage,
  GitOrganizationsResponse,
  InstallationPage,
  ProviderType,
  RepositoryOrder,
  RepositoryPage,
  SuggestedTaskPage,
  UserGitInfo,
} from "@sandpiper/wire";
import { Type } from "typebox";
import type { GitHosting, ListPage } from "../../../git/api.ts";
import { makeRoute } from "../../server/make-route.ts";
import { makePageKeys, pageKeys, parsePageMark, slicePage, toMarkPage } from "../../server/params.ts";
import type { App } from "../../server/services.ts";

/** Statuses of a provider's refusals. */
const config = { failures: [400, 403, 404, 422, 502] };
const pageKeysOf30 = makePageKeys(30);
const ProviderQuery = Type.Object({ provider: ProviderType, ...pageKeys });
const RepositoryQuery = Type.Object({
  ...ProviderQuery.properties,
  query: Type.Optional(Type.String({ maxLength: 1_000 })),
  installation_id: Type.Optional(
    Type.String({
      maxLength: 1_000,
      description: "an installation, workspace, group or organization",
    }),
  ),
  sort_order: Type.Optional(RepositoryOrder),
});
const BranchQuery = Type.Object({
  provider: ProviderType,
  repository: Type.String({ maxLength: 1_000 }),
  query: Type.String({ maxLength: 1_000 }),
  ...pageKeysOf30,
});

/**
 * Repositories, branches, tasks and user at git providers (app-server.md section 7). Page ids are
 * base64 of the provider's marks.
 */
export function gitRoutes(app: App, { git }: { git: GitHosting }): void {
  const route = makeRoute(["git"], config);
  const userRoute = makeRoute(["users"], config);
  app.get(
    "/api/v1/git/installations/search",
    route("List values of installation_id: installations, workspaces, groups or organizations", {
      querystring: ProviderQuery,
      response: { 200: InstallationPage },
    }),
    async (request) => {
      const { provider, page_id, limit } = request.query;
      const all = await git.installations(request.principal.userId, provider);
      return toSlicedPage(all, page_id, limit);
    },
  );
  app.get(
    "/api/v1/git/repositories/search",
    route("List or search repositories", { querystring: RepositoryQuery, response: { 200: RepositoryPage } }),
    async (request) => {
      const { provider, query, installation_id, page_id, limit, sort_order } = request.query;
      if (sort_order !== undefined && !query) throw new PlatformError("SortNeedsQuery");
      const ask = {
        query,
        installation: installation_id,
        order: sort_order,
        from: parsePageMark(page_id),
        limit,
      };
      return toListPage(await git.repositories(request.principal.userId, provider, ask));
    },
  );
  app.get(
    "/api/v1/git/branches/search",
    route("Search for branches of a repository", { querystring: BranchQuery, response: { 200: BranchPage } }),
    async (request) => {
      const { provider, repository, query, page_id, limit } = request.query;
      const ask = { repository, query, from: parsePageMark(page_id), limit };
      return toListPage(await git.branches(request.principal.userId, provider, ask));
    },
  );
  app.get(
    "/api/v1/git/suggested-tasks/search",
    route("List open pull requests that need work, and issues assigned to the user", {
      querystring: Type.Object(pageKeysOf30),
      response: { 200: SuggestedTaskPage },
    }),
    async (request) => {
      const { page_id, limit } = request.query;
      return toSlicedPage(await git.suggestedTasks(request.principal.userId), page_id, limit);
    },
  );
  app.get(
    "/api/v1/users/git-info",
    userRoute("Read the user at the git provider", { response: { 200: UserGitInfo } }),
    (request) => git.user(request.principal.userId),
  );
  app.get(
    "/api/v1/users/git-organizations",
    userRoute("List the user's organizations at the git provider", {
      response: { 200: GitOrganizationsResponse },
    }),
    (request) => git.organizations(request.principal.userId),
  );
}

function toSlicedPage<T>(items: readonly T[], pageId: string | undefined, limit: number) {
  return toMarkPage(slicePage(items, { pageId: parsePageMark(pageId), limit }));
}

function toListPage<T>({ items, next }: ListPage<T>) {
  return toMarkPage({ items, nextPageId: next });
}
