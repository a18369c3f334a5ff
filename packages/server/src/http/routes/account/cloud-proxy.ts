import { PlatformError } from "@sandpiper/core/errors";
import { OwnRequest } from "@sandpiper/wire";
import { Type } from "typebox";
import type { App, HttpServices } from "../../server/services.ts";
import { decodePath, getPublicUrl } from "../../server/urls.ts";

/**
 * The reachable part of the agent-server surface. Whole-file routes are excluded, because responses
 * are buffered.
 */
const surface = /^\/api\/(?:conversations|git)\//;
const wholeFile = /\/trajectory\/*$/;

/**
 * Forwards browsers' requests to a conversation's agent server (remote-clients.md section 10).
 * Clients of the hosted service use its server as proxy. Here both are the same server, so the
 * request runs in place with only the credentials it names, and never reaches another host.
 */
export function cloudProxyRoutes(app: App, { config }: Pick<HttpServices, "config">): void {
  app.post(
    "/api/cloud-proxy",
    {
      config: { failures: [404, 409, 410, 502, 503] },
      schema: {
        tags: ["agent server"],
        summary: "Send a request to a conversation's agent server on this host",
        body: OwnRequest,
        response: { 200: Type.Unknown({ description: "the response to that request" }) },
      },
    },
    async ({ body: { host, method, path, headers, body }, ip }, reply) => {
      const own = new URL(getPublicUrl(config, app.server)).origin;
      if (!URL.canParse(host) || new URL(host).origin !== own)
        throw new PlatformError("ProxyHostForeign", { own });
      const url = URL.canParse(path, own) ? new URL(path, own) : undefined;
      if (url?.origin !== own || !surface.test(url.pathname) || wholeFile.test(decodePath(url.pathname)))
        throw new PlatformError("ProxyPathInvalid");
      const sent = body !== undefined && body !== null && method !== "GET";
      const answer = await app.inject({
        method,
        url: url.pathname + url.search,
        remoteAddress: ip,
        headers: { ...pickKeyHeaders(headers ?? {}), ...(sent && { "content-type": "application/json" }) },
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

/** Keeps only headers with keys, in any case. */
function pickKeyHeaders(headers: NonNullable<OwnRequest["headers"]>): Record<string, string> {
  const names = new Set(["authorization", "x-session-api-key"]);
  return Object.fromEntries(Object.entries(headers).filter(([name]) => names.has(name.toLowerCase())));
}
