import { PlatformError } from "@sandpiper/core/errors";
import { CurrentApiKey, OrganizationMember, OrganizationPage, ProviderConnections } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { settingsProfileRoutes } from "../v1/settings-profiles.ts";

const org_id = Type.String({ minLength: 1, maxLength: 128, description: "the user's id" });

/**
 * Routes of the hosted service for released clients. The first two check that the server is
 * reachable and the key valid. Clients edit LLM profiles only in an organization, so each user has
 * a personal one with the user's id and the profiles of the user's settings.
 */
export function organizationStubRoutes(app: App, services: Pick<HttpServices, "settings">): void {
  const route = makeRoute(["keys"]);

  app.get(
    "/api/organizations",
    route("Your organizations: only your personal one", { response: { 200: OrganizationPage } }),
    ({ principal: { userId } }, reply) => {
      const items = [{ id: userId, name: "Personal workspace", is_personal: true }];
      reply.send({ items, next_page_id: null, current_org_id: userId });
    },
  );
  app.get(
    "/api/keys/current",
    route(
      "The API key of this request, or of its login",
      { response: { 200: CurrentApiKey } },
      { failures: [404] },
    ),
    ({ principal }, reply) => {
      const { keyId, userId, readOnly = false } = principal;
      if (keyId === undefined) throw new PlatformError("ApiKeyUnknown");
      reply.send({ id: keyId, user_id: userId, org_id: userId, read_only: readOnly });
    },
  );
  app.get(
    "/api/organizations/:org_id/me",
    {
      preHandler: requireOwnOrganization,
      ...route("What you may do in your organization", {
        params: Type.Object({ org_id }),
        response: { 200: OrganizationMember },
      }),
    },
    ({ principal: { userId, readOnly = false } }, reply) => {
      reply.send({
        org_id: userId,
        user_id: userId,
        role: readOnly ? "member" : "owner",
        permissions: readOnly ? ["view_org_settings"] : ["view_org_settings", "edit_org_settings"],
        status: "active",
      });
    },
  );
  app.get(
    "/api/organizations/:org_id/provider-connections",
    {
      preHandler: requireOwnOrganization,
      ...route("Keys shared by LLM profiles: always empty, each profile has its own key", {
        params: Type.Object({ org_id }),
        response: { 200: ProviderConnections },
      }),
    },
    (_request, reply) => {
      reply.send({ connections: [] });
    },
  );
  settingsProfileRoutes(app, services, {
    base: "/api/organizations/:org_id/profiles",
    keys: { org_id },
    preHandler: [requireOwnOrganization],
    keepsKeys: true,
  });
}

/** Throws OrganizationNotFound for any organization but the user's own. */
function requireOwnOrganization(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const { org_id } = request.params as { org_id: string };
  if (org_id !== request.principal.userId) throw new PlatformError("OrganizationUnknown");
  done();
}
