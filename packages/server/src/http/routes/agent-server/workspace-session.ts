import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { getKeys } from "../../server/auth.ts";
import { makeRoute } from "../../server/make-route.ts";
import { makeIsSecure } from "../../server/secure-scheme.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { requireAgentSandbox } from "./agent-sandbox.ts";
import { SandboxQuery } from "./file-paths.ts";
import { getPrefixSandbox } from "./view.ts";
import { type CookieScope, makeClearingWorkspaceCookie, makeWorkspaceCookie } from "./workspace-cookie.ts";

const url = "/api/auth/workspace-session";

/** Sets and clears the cookie for files of workspaces (agent-server.md sections 1 and 9). */
export function workspaceSessionRoutes(
  app: App,
  { sandboxes, config }: Pick<HttpServices, "sandboxes" | "config">,
): void {
  const route = makeRoute(["agent server"]);
  const isSecure = makeIsSecure(config);
  const scope = (request: FastifyRequest): CookieScope => {
    const viewed = getPrefixSandbox(request.raw);
    return {
      path: `${viewed === undefined ? "" : `/agent/${viewed}`}/api/conversations`,
      // Browsers accept these cookies from loopback without https.
      secure: isSecure(request.raw) || loopback.test(request.hostname),
    };
  };

  app.post(
    url,
    route(
      "Let this browser show files of workspaces",
      { querystring: SandboxQuery, response: { 204: Type.Null({ description: "The cookie is set" }) } },
      { access: "agent", failures: [400, 404] },
    ),
    async (request, reply) => {
      const row = await requireAgentSandbox(sandboxes, request, request.query.sandbox_id);
      return reply
        .code(204)
        .header("set-cookie", makeWorkspaceCookie({ row, source: request.principal.source }, scope(request)))
        .send(null);
    },
  );
  app.delete(
    url,
    route(
      "Clear that cookie",
      { querystring: SandboxQuery, response: { 204: Type.Null({ description: "The cookie is cleared" }) } },
      { access: "agent" },
    ),
    (request, reply) => {
      reply
        .code(204)
        .header("set-cookie", makeClearingWorkspaceCookie(scope(request)))
        .send(null);
    },
  );
}

const loopback = /^(?:localhost|127\.0\.0\.1|\[?::1\]?)(?::\d+)?$/i;
const workspacePaths =
  /^(?:\/agent\/[^/]+)?\/api\/(?:auth\/workspace-session|conversations\/[^/?]+\/workspace)(?:[/?]|$)/;

/**
 * Whether pages of any site may send this request and read its response: the workspace paths, with
 * a key (agent-server.md section 1). A request with only the cookie is subject to the configured
 * origins.
 */
export function allowsAnySite({ method, raw, originalUrl, headers }: FastifyRequest): boolean {
  return (
    workspacePaths.test(originalUrl ?? raw.url ?? "") && (method === "OPTIONS" || getKeys(headers).length > 0)
  );
}
