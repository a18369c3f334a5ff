import { MarketplaceRegistrations, MarketplaceSkillsPreviewResponse, SkillPage } from "@sandpiper/wire";
import { makeRoute } from "../../server/make-route.ts";
import { PageQuery } from "../../server/params.ts";
import type { App, HttpServices } from "../../server/services.ts";

/**
 * Skills outside of conversations (app-server.md section 7). A page id is the previous page's last
 * name.
 */
export function skillRoutes(app: App, { skills }: Pick<HttpServices, "skills">): void {
  const route = makeRoute(["skills"], { errors: "error" });
  app.get(
    "/api/v1/skills/search",
    route("List the skills of this server and of the user's marketplaces", {
      querystring: PageQuery,
      response: { 200: SkillPage },
    }),
    async ({ principal, query: { page_id, limit } }) => {
      const after = (await skills.list(principal.userId)).filter(
        ({ name }) => page_id === undefined || name > page_id,
      );
      const items = after.slice(0, limit);
      return { items, next_page_id: after.length > limit ? items.at(-1)!.name : null };
    },
  );
  app.post(
    "/api/v1/skills/marketplace-skills",
    route("Preview marketplaces without registering them", {
      body: MarketplaceRegistrations,
      response: { 200: MarketplaceSkillsPreviewResponse },
    }),
    ({ body }) => skills.preview(body),
  );
}
