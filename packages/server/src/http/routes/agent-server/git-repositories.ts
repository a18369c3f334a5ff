import { ProviderRepositoryPage, type ProviderType, StringEnum } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import { pageKeys, parsePageMark, toMarkPage } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

const Query = Type.Object({
  provider: StringEnum(["github", "gitlab", "bitbucket", "azure_devops"]),
  query: Type.Optional(Type.String({ maxLength: 1_000 })),
  ...pageKeys,
});

/**
 * Repositories of the user at a git provider in the agent server's shape (agent-server-1.58.md
 * section 4.1). Without a token of the provider the page is empty and says so.
 */
export function agentRepositoryRoutes(app: App, { git }: Pick<HttpServices, "git">): void {
  const route = makeRoute(["git"], { access: "agent", failures: [400, 403, 404, 502] });

  app.get(
    "/api/git/repositories/search",
    route("List or search repositories; missing_token: there is no token of the provider", {
      querystring: Query,
      response: { 200: ProviderRepositoryPage },
    }),
    async ({ principal, query: { provider, query, page_id, limit } }) => {
      const known: readonly ProviderType[] = await git.providers(principal.userId);
      if (!known.includes(provider)) return { items: [], next_page_id: null, missing_token: true };
      const ask = { query: query || undefined, from: parsePageMark(page_id), limit };
      const { items, next } = await git.repositories(principal.userId, provider, ask);
      return { ...toMarkPage({ items, nextPageId: next }), missing_token: false };
    },
  );
}
