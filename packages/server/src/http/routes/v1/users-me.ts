import { PlatformError } from "@sandpiper/core/errors";
import { UserInfo } from "@sandpiper/wire";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";

/** `GET /api/v1/users/me` (app-server.md section 7, remote-clients.md section 9). */
export function usersMeRoutes(
  app: App,
  { settings, grants }: Pick<HttpServices, "settings" | "grants">,
): void {
  app.get(
    "/api/v1/users/me",
    {
      config: { failures: [403] },
      schema: {
        tags: ["users"],
        summary: "Read the calling user and their settings",
        description:
          "expose_secrets returns plain secrets: X-Session-API-Key must then be the key of one of the user's running sandboxes, and Authorization the user's own key.",
        querystring: Type.Object({
          expose_secrets: Type.Boolean({ default: false, description: "show the values of secrets" }),
        }),
        response: { 200: UserInfo },
      },
    },
    async (request) => {
      const exposeSecrets = request.query.expose_secrets;
      if (exposeSecrets) await requireSandboxKey(request, grants);
      return settings.me(request.principal.userId, { exposeSecrets });
    },
  );
}

/**
 * Only programs in the user's sandboxes may read secrets. Throws PlatformError Unauthorized,
 * SandboxForeign, ReadOnlyKey.
 */
async function requireSandboxKey(
  { principal, headers }: FastifyRequest,
  grants: HttpServices["grants"],
): Promise<void> {
  if (principal.readOnly) throw new PlatformError("KeyReadOnlyForSecrets");
  const key = headers["x-session-api-key"];
  const row = typeof key === "string" && key !== "" ? (await grants.bySessionKey(key))?.row : undefined;
  if (row?.status !== "RUNNING") {
    throw new PlatformError("SecretsNeedSessionKey");
  }
  if (row.userId !== principal.userId) throw new PlatformError("SandboxOfOtherUser");
}
