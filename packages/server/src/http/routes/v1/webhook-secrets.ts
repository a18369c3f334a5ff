import { PlatformError } from "@sandpiper/core/errors";
import { isoTime, ProviderAccess, ProviderAccessRequest } from "@sandpiper/wire";
import { Type } from "typebox";
import { makeRoute } from "../../server/make-route.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { sendSecret } from "./sandbox-secrets.ts";

const url = "/api/v1/webhooks/secrets";

/**
 * Provider tokens for programs with a signed token instead of a key (app-server.md section 8);
 * issuing tokens is an addition.
 */
export function webhookSecretRoutes(
  app: App,
  services: Pick<HttpServices, "secrets" | "providerAccess">,
): void {
  const { secrets, providerAccess } = services;
  const route = makeRoute(["webhooks"]);

  app.get(
    url,
    route(
      "Read a provider's token with the signed token in X-Access-Token",
      {
        headers: Type.Object({
          "x-access-token": Type.Optional(
            Type.String({ maxLength: 4_096, description: "a token from POST of this path" }),
          ),
        }),
        produces: ["text/plain"],
        response: { 200: Type.String() },
      },
      { access: "public", failures: [401] },
    ),
    async (request, reply) => {
      const access = await providerAccess.verify(request.headers["x-access-token"] ?? "");
      const token = access && (await secrets.providers(access.userId)).get(access.provider)?.token;
      if (token === undefined) throw new PlatformError("KeyRequired");
      sendSecret(reply, token);
      return reply;
    },
  );
  app.post(
    url,
    route("Issue a token for X-Access-Token that grants one provider's token for 14 days", {
      body: ProviderAccessRequest,
      response: { 200: ProviderAccess },
    }),
    async (request) => {
      const { token, expiresAt } = await providerAccess.issue(request.principal, request.body.provider);
      return { access_token: token, expires_at: isoTime(expiresAt) };
    },
  );
}
