import { PlatformError } from "@sandpiper/core/errors";
import { isoTime, PreviewLink } from "@sandpiper/wire";
import { Type } from "typebox";
import { normalizeSandboxId } from "../routes/v1/sandboxes.ts";
import type { App, HttpServices } from "../server/services.ts";
import { getPublicUrl } from "../server/urls.ts";
import { makePreviewLinks } from "./links.ts";

/** Lifetime of a link, ms; the session that it starts lasts longer. */
const linkMs = 60 * 60 * 1000;

/** Creates URLs of previews; an addition to the contract. */
export function previewRoutes(
  app: App,
  { sandboxes, config }: Pick<HttpServices, "sandboxes" | "config">,
): void {
  app.get(
    "/api/v1/sandboxes/:sandbox_id/preview",
    {
      config: { access: "agent", grantsAccess: true },
      schema: {
        tags: ["sandboxes"],
        summary: "Get URLs that open a port of the sandbox in a browser",
        params: Type.Object({ sandbox_id: Type.String() }),
        querystring: Type.Object({ port: Type.Integer({ minimum: 1, maximum: 65_535 }) }),
        response: { 200: PreviewLink },
      },
    },
    async (request, reply) => {
      const { principal, params, query } = request;
      const row = await sandboxes.get(principal.userId, normalizeSandboxId(params.sandbox_id));
      if (!row || (principal.sandboxId ?? row.id) !== row.id) throw new PlatformError("SandboxUnknown");
      const expires = Math.floor(Date.now() / 1000) * 1000 + linkMs;
      const { url, pathUrl } = makePreviewLinks(
        { row, source: principal.source },
        query.port,
        getPublicUrl(config, app.server),
        expires,
      );
      return reply.send({ url, path_url: pathUrl, expires_at: isoTime(expires) });
    },
  );
}
