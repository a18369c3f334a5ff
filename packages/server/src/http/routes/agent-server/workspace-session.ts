import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import { getKeys } from "../../server/auth.ts";
import type { App, HttpServices } from "../../server/services.ts";
import { isSecure } from "../account/login/cookie.ts";
import { agentSandbox } from "./agent-sandbox.ts";
import { SandboxQuery } from "./file-paths.ts";
import { prefixSandbox } from "./view.ts";
import { type CookieScope, clearedWorkspaceCookie, workspaceCookie } from "./workspace-cookie.ts";

const url = "/api/auth/workspace-session";

/** Sets and clears the cookie for files of workspaces (agent-server.md sections 1 and 9). */
export function workspaceSessionRoutes(
  app: App,
  { sandboxes, config }: Pick<HttpServices, "sandboxes" | "config">,
): void {
  const tags = ["agent server"];
  const scope = (request: FastifyRequest): CookieScope => {
    const viewed = prefixSandbox(request.raw);
    return {
      path: `${viewed === undefined ? "" : `/agent/${viewed}`}/api/conversations`,
      // Browsers accept these cookies from loopback without https.
      secure:
        isSecure({ protocol: request.protocol, publicUrl: config.publicUrl }) ||
        loopback.test(request.hostname),
    };
  };

  app.post(
    url,
    {
      config: { access: "agent", failures: [400, 404] },
      schema: {
        tags,
        summary: "Let this browser show files of workspaces",
        querystring: SandboxQuery,
        response: { 204: Type.Null({ description: "The cookie is set" }) },
      },
    },
    (request, reply) => {
      const row = agentSandbox(sandboxes, request, request.query.sandbox_id);
      reply
        .code(204)
        .header("set-cookie", workspaceCookie(row, scope(request)))
        .send(null);
    },
  );
  app.delete(
    url,
    {
      config: { access: "agent" },
      schema: {
        tags,
        summary: "Clear that cookie",
        querystring: SandboxQuery,
        response: { 204: Type.Null({ description: "The cookie is cleared" }) },
      },
    },
    (request, reply) => {
      reply
        .code(204)
        .header("set-cookie", clearedWorkspaceCookie(scope(request)))
        .send(null);
    },
  );
}

const loopback = /^(?:localhost|127\.0\.0\.1|\[?::1\]?)(?::\d+)?$/i;
const paths =
  /^(?:\/agent\/[^/]+)?\/api\/(?:auth\/workspace-session|conversations\/[^/?]+\/workspace)(?:[/?]|$)/;

/**
 * Whether pages of any site may send this request and read its response: the workspace paths, with
 * a key (agent-server.md section 1). A request with only the cookie is subject to the configured
 * origins.
 */
export function opensToAnySite({ method, raw, originalUrl, headers }: FastifyRequest): boolean {
  return paths.test(originalUrl ?? raw.url ?? "") && (method === "OPTIONS" || getKeys(headers).length > 0);
}
