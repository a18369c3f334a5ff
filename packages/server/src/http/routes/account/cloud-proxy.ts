import { PlatformError } from "@sandpiper/core/errors";
import { OwnRequest } from "@sandpiper/wire";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";
import { decodePath, getPublicUrl } from "../../server/urls.ts";

/** What of the agent-server surface is reached so. What answers with whole files is not: answers are held in memory. */
const surface = /^\/api\/(?:conversations|git)\//;
const whole = /\/trajectory\/*$/;

/**
 * Requests of browsers to the agent server of a conversation (remote-clients.md section 10). Released clients of a hosted service let its server
 * pass them on, as a browser may not ask the agent server's host. Here that is this same server, so the request is handled in place, with the
 * credentials that it names and no others: it opens nothing that they do not, and no other host is ever asked.
 */
export function cloudProxyRoutes(app: App, { config }: Pick<HttpServices, "config">): void {
  app.post(
    "/api/cloud-proxy",
    {
      config: { failures: [404, 409, 410, 502, 503] },
      schema: {
        tags: ["agent server"],
        summary:
          "Send a request to the agent server of a conversation: to this server itself, and to no other",
        body: OwnRequest,
        response: { 200: Type.Unknown({ description: "the answer of that request" }) },
      },
    },
    async ({ body: { host, method, path, headers, body }, ip }, reply) => {
      const own = new URL(getPublicUrl(config, app.server)).origin;
      if (!URL.canParse(host) || new URL(host).origin !== own)
        throw new PlatformError(
          "InvalidParameter",
          `host has to be this server, ${own}: requests are passed on to no other.`,
        );
      const url = URL.canParse(path, own) ? new URL(path, own) : undefined;
      if (url?.origin !== own || !surface.test(url.pathname) || whole.test(decodePath(url.pathname)))
        throw new PlatformError(
          "InvalidParameter",
          "path has to be below /api/conversations/ or /api/git/, and a trajectory is read page by page.",
        );
      const sent = body !== undefined && body !== null && method !== "GET";
      const answer = await app.inject({
        method,
        url: url.pathname + url.search,
        remoteAddress: ip,
        headers: { ...credentials(headers ?? {}), ...(sent && { "content-type": "application/json" }) },
        ...(sent && { payload: JSON.stringify(body) }),
      });
      const { "content-type": type, "retry-after": retryAfter } = answer.headers;
      if (retryAfter !== undefined) reply.header("retry-after", retryAfter);
      return reply
        .code(answer.statusCode as 200)
        .type(String(type ?? "application/json"))
        .send(answer.rawPayload);
    },
  );
}

/** The headers with keys, whatever the case of their names. */
function credentials(headers: NonNullable<OwnRequest["headers"]>): Record<string, string> {
  const names = new Set(["authorization", "x-session-api-key"]);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.has(name.toLowerCase())));
}
