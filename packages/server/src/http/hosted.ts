import { CurrentApiKey, OrganizationPage } from "@sandpiper/wire";
import { PlatformError } from "../errors.ts";
import type { App } from "./services.ts";

/**
 * What released clients ask of the hosted service before they use a server: by these they tell whether it can be reached and whether the
 * login or the key is good. There are no organizations here.
 */
export function hostedRoutes(app: App): void {
  const tags = ["keys"];

  app.get(
    "/api/organizations",
    { schema: { tags, summary: "Your organizations: none", response: { 200: OrganizationPage } } },
    (_request, reply) => {
      reply.send({ items: [], next_page_id: null, current_org_id: null });
    },
  );
  app.get(
    "/api/keys/current",
    {
      config: { failures: [404] },
      schema: { tags, summary: "The API key of this request, or of its login", response: { 200: CurrentApiKey } },
    },
    ({ principal }, reply) => {
      const { keyId, readOnly = false } = principal;
      if (keyId === undefined) throw new PlatformError("KeyNotFound", "Key not found");
      reply.send({ id: keyId, user_id: principal.userId, org_id: null, read_only: readOnly });
    },
  );
}
