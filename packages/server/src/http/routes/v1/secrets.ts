import { CustomSecretCreate, CustomSecretPage, CustomSecretUpdate, EditResponse } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import { pageKeys, toWirePage } from "../../server/params.ts";
import type { App } from "../../server/services.ts";
import { type ProviderTokenServices, providerTokenRoutes } from "../account/provider-tokens.ts";

const SecretPath = Type.Object({ secret_id: Type.String({ description: "name of the secret" }) });

/**
 * Custom secrets and tokens of git providers (app-server.md section 6). Values can be written, but
 * never read.
 */
export function secretRoutes(app: App, services: ProviderTokenServices): void {
  const { secrets } = services;
  const route = makeRoute(["secrets"]);

  app.get(
    "/api/v1/secrets/search",
    route("List secrets by name, without their values", {
      querystring: Type.Object({
        name__contains: Type.Optional(Type.String({ description: "part of the name" })),
        ...pageKeys,
        page_id: Type.Optional(Type.String({ description: "name of the last secret of the previous page" })),
      }),
      response: { 200: CustomSecretPage },
    }),
    async (request) => {
      const { name__contains: part = "", page_id: after = "", limit } = request.query;
      const all = await secrets.list(request.principal.userId);
      const found = all.filter(({ name }) => name > after && name.includes(part));
      const items = found.slice(0, limit).map(({ hosts, headers = null, plain = false, ...info }) => ({
        ...info,
        plain,
        hosts: hosts && [...hosts],
        headers: headers && [...headers],
      }));
      return toWirePage({ items, nextPageId: found.length > limit ? items.at(-1)!.name : null });
    },
  );
  app.post(
    "/api/v1/secrets",
    route(
      "Store a secret; replaces one of the same name",
      { body: CustomSecretCreate, response: { 201: EditResponse } },
      { failures: [409] },
    ),
    async (request, reply) => {
      await secrets.put(request.principal.userId, request.body, { replace: true });
      reply.code(201).send({ message: "Secret created successfully" });
    },
  );
  app.put(
    "/api/v1/secrets/:secret_id",
    route("Change a secret's name, description, hosts, headers or plain; the value stays", {
      params: SecretPath,
      body: CustomSecretUpdate,
      response: { 200: EditResponse },
    }),
    async (request) => {
      await secrets.rename(request.principal.userId, request.params.secret_id, request.body);
      return { message: "Secret updated successfully" };
    },
  );
  app.delete(
    "/api/v1/secrets/:secret_id",
    route("Delete a secret", { params: SecretPath, response: { 200: EditResponse } }),
    async (request) => {
      await secrets.remove(request.principal.userId, request.params.secret_id);
      return { message: "Secret deleted successfully" };
    },
  );
  providerTokenRoutes(app, route, services, {
    set: "/api/v1/secrets/git-providers",
    unset: { method: "DELETE", url: "/api/v1/secrets/git-providers" },
  });
}
