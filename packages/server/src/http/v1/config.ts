import { LLMModelPage, ProviderPage } from "@sandpiper/wire";
import { Type } from "typebox";
import { knownModels, knownProviders } from "../../models/known-models.ts";
import { slicePage } from "../params.ts";
import type { App } from "../services.ts";

const pageKeys = {
  page_id: Type.Optional(Type.String({ description: "next_page_id of the page before" })),
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 50 }),
  query: Type.Optional(Type.String({ maxLength: 256, description: "part of the name" })),
  verified__eq: Type.Optional(Type.Boolean()),
};

const ProviderQuery = Type.Object(pageKeys);
const ModelQuery = Type.Object({ ...pageKeys, provider__eq: Type.Optional(Type.String()) });

/** The models and providers that the server knows (app-server.md section 7). Page ids are base64 of an offset. */
export function configRoutes(app: App): void {
  const tags = ["config"];
  app.get(
    "/api/v1/config/models/search",
    {
      schema: {
        tags,
        summary: "List the models that the server knows",
        querystring: ModelQuery,
        response: { 200: LLMModelPage },
      },
    },
    ({ query }) => {
      const wanted = query.query?.toLowerCase();
      const found = knownModels.filter(
        ({ name, provider, verified }) =>
          (wanted === undefined || `${provider}/${name}`.toLowerCase().includes(wanted)) &&
          (query.verified__eq === undefined || verified === query.verified__eq) &&
          (query.provider__eq === undefined || provider === query.provider__eq),
      );
      return page(found, query);
    },
  );
  app.get(
    "/api/v1/config/providers/search",
    { schema: { tags, summary: "List model providers", querystring: ProviderQuery, response: { 200: ProviderPage } } },
    ({ query }) => {
      const wanted = query.query?.toLowerCase();
      const found = knownProviders.filter(
        ({ name, verified }) =>
          (wanted === undefined || name.includes(wanted)) &&
          (query.verified__eq === undefined || verified === query.verified__eq),
      );
      return page(found, query);
    },
  );
}

function page<T>(items: readonly T[], { page_id, limit }: { page_id?: string; limit: number }) {
  const pageId = page_id === undefined ? undefined : Buffer.from(page_id, "base64").toString("utf8");
  const sliced = slicePage(items, { pageId, limit });
  const next = sliced.nextPageId;
  return { items: sliced.items, next_page_id: next === null ? null : Buffer.from(next).toString("base64") };
}
