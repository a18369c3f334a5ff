import { PlatformError } from "@sandpiper/core/errors";
import { EditResponse, LegacySecretCreate, LegacySecrets, LegacySecretUpdate } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App } from "../../server/services.ts";
import { type ProviderTokenServices, providerTokenRoutes } from "../account/provider-tokens.ts";

const SecretPath = Type.Object({ secret_id: Type.String({ description: "name of the secret" }) });

/** V0 routes of secrets (app-server.md section 5, legacy-gui.md section 8), over the V1 store. */
export function legacySecretRoutes(app: App, services: ProviderTokenServices): void {
  const { secrets } = services;
  const route = makeRoute(["secrets"], { errors: "error" });

  app.get(
    "/api/secrets",
    route("List secrets, without their values", { response: { 200: LegacySecrets } }),
    async (request) => {
      const items = await secrets.list(request.principal.userId);
      return { custom_secrets: items.map(({ name, description }) => ({ name, description })) };
    },
  );
  app.post(
    "/api/secrets",
    route(
      "Store a secret; its name must be free",
      { body: LegacySecretCreate, response: { 201: EditResponse, 400: EditResponse } },
      { failures: [409] },
    ),
    async (request, reply) => {
      const taken = await catchNameClash(
        secrets.put(request.principal.userId, request.body, { replace: false }),
      );
      if (taken) return reply.code(400).send(taken);
      return reply.code(201).send({ message: "Secret created successfully" });
    },
  );
  app.put(
    "/api/secrets/:secret_id",
    route("Change a secret's name or description", {
      params: SecretPath,
      body: LegacySecretUpdate,
      response: { 200: EditResponse, 400: EditResponse },
    }),
    async (request, reply) => {
      const taken = await catchNameClash(
        secrets.rename(request.principal.userId, request.params.secret_id, request.body),
      );
      if (taken) return reply.code(400).send(taken);
      return reply.send({ message: "Secret updated successfully" });
    },
  );
  app.delete(
    "/api/secrets/:secret_id",
    route("Delete a secret", { params: SecretPath, response: { 200: EditResponse } }),
    async (request) => {
      await secrets.remove(request.principal.userId, request.params.secret_id);
      return { message: "Secret deleted successfully" };
    },
  );
  providerTokenRoutes(app, route, services, {
    set: "/api/add-git-providers",
    unset: { method: "POST", url: "/api/unset-provider-tokens" },
  });
}

/** Returns a name clash as `message` (app-server.md section 0). */
async function catchNameClash(work: Promise<void>): Promise<{ message: string } | undefined> {
  try {
    await work;
    return undefined;
  } catch (error) {
    if (error instanceof PlatformError && error.code === "SecretExists") return { message: error.message };
    throw error;
  }
}
