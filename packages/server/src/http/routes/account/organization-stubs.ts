import { PlatformError } from "@sandpiper/core/errors";
import { CurrentApiKey, OrganizationMember, OrganizationPage, ProviderConnections } from "@sandpiper/wire";
import type { FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";
import { settingsProfileRoutes } from "../v1/settings-profiles.ts";

const org_id = Type.String({ minLength: 1, maxLength: 128, description: "the user's id" });

/**
 * What released clients ask of the hosted service. By the first two they tell whether a server can be reached and whether the login or the key is
 * good. They change LLM profiles only in an organization whose settings the user may edit, so every user has one of their own, as there: it has the
 * user's id, nobody else is in it, and its profiles are those of the user's settings.
 */
export function hostedRoutes(app: App, services: Pick<HttpServices, "settings">): void {
  const tags = ["keys"];

  app.get(
    "/api/organizations",
    {
      schema: { tags, summary: "Your organizations: one of your own", response: { 200: OrganizationPage } },
    },
    ({ principal: { userId } }, reply) => {
      const items = [{ id: userId, name: "Personal workspace", is_personal: true }];
      reply.send({ items, next_page_id: null, current_org_id: userId });
    },
  );
  app.get(
    "/api/keys/current",
    {
      config: { failures: [404] },
      schema: {
        tags,
        summary: "The API key of this request, or of its login",
        response: { 200: CurrentApiKey },
      },
    },
    ({ principal }, reply) => {
      const { keyId, userId, readOnly = false } = principal;
      if (keyId === undefined) throw new PlatformError("KeyNotFound", "Key not found");
      reply.send({ id: keyId, user_id: userId, org_id: userId, read_only: readOnly });
    },
  );
  app.get(
    "/api/organizations/:org_id/me",
    {
      preHandler: requireOwn,
      schema: {
        tags,
        summary: "What you may do in your organization",
        params: Type.Object({ org_id }),
        response: { 200: OrganizationMember },
      },
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
      preHandler: requireOwn,
      schema: {
        tags,
        summary: "Keys that several LLM profiles share: none, each profile has its own",
        params: Type.Object({ org_id }),
        response: { 200: ProviderConnections },
      },
    },
    (_request, reply) => {
      reply.send({ connections: [] });
    },
  );
  settingsProfileRoutes(app, services, {
    base: "/api/organizations/:org_id/profiles",
    keys: { org_id },
    preHandler: [requireOwn],
    keepsKeys: true,
  });
}

/** Throws OrganizationNotFound for every organization but the user's own. */
function requireOwn(request: FastifyRequest, _reply: FastifyReply, done: () => void): void {
  const { org_id } = request.params as { org_id: string };
  if (org_id !== request.principal.userId)
    throw new PlatformError("OrganizationNotFound", "Organization not found");
  done();
}
