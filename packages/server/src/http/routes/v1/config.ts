import { knownModels, knownProviders } from "@sandpiper/models/known-models";
import { LLMModelPage, ProviderPage } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import { makePageKeys, parsePageMark, slicePage, toMarkPage } from "../../server/params.ts";
import type { App } from "../../server/services.ts";

const filterKeys = {
  ...makePageKeys(50),
  query: Type.Optional(Type.String({ maxLength: 256, description: "part of the name" })),
  verified__eq: Type.Optional(Type.Boolean()),
};

const ProviderQuery = Type.Object(filterKeys);
const ModelQuery = Type.Object({ ...filterKeys, provider__eq: Type.Optional(Type.String()) });

/**
 * The server's known models and providers (app-server.md section 7). Page ids are base64 of an
 * offset.
 */
export function configRoutes(app: App): void {
  const route = makeRoute(["config"]);
  app.get(
    "/api/v1/config/models/search",
    route("List known models", { querystring: ModelQuery, response: { 200: LLMModelPage } }),
    ({ query }) => {
      const wanted = query.query?.toLowerCase();
      const found = knownModels.filter(
        ({ name, provider, verified }) =>
          (wanted === undefined || `${provider}/${name}`.toLowerCase().includes(wanted)) &&
          (query.verified__eq === undefined || verified === query.verified__eq) &&
          (query.provider__eq === undefined || provider === query.provider__eq),
      );
      return toPageOf(found, query);
    },
  );
  app.get(
    "/api/v1/config/providers/search",
    route("List model providers", { querystring: ProviderQuery, response: { 200: ProviderPage } }),
    ({ query }) => {
      const wanted = query.query?.toLowerCase();
      const found = knownProviders.filter(
        ({ name, verified }) =>
          (wanted === undefined || name.includes(wanted)) &&
          (query.verified__eq === undefined || verified === query.verified__eq),
      );
      return toPageOf(found, query);
    },
  );
}

function toPageOf<T>(items: readonly T[], { page_id, limit }: { page_id?: string; limit: number }) {
  return toMarkPage(slicePage(items, { pageId: parsePageMark(page_id), limit }));
}
