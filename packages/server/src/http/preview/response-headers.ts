import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { hopByHopHeaders } from "@sandpiper/core/http-proxy";
import type { PreviewTarget } from "./address.ts";
import { rewriteSetCookie } from "./cookies.ts";

/**
 * Headers that affect more than the preview: storage, transport and reporting of the whole host or
 * a shared domain, and service workers of the whole host.
 */
const dropped = new Set([
  "clear-site-data",
  "service-worker-allowed",
  "strict-transport-security",
  "public-key-pins",
  "alt-svc",
  "nel",
  "report-to",
  "reporting-endpoints",
  "accept-ch",
  "critical-ch",
  "set-cookie",
  "location",
]);

/**
 * Scripts and forms of an app in the path form work, but without an origin they cannot access the
 * platform's pages.
 */
const sandboxPolicy = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

/** `frameAncestors`: the CSP sources that may frame previews. */
export interface ResponseRules {
  target: PreviewTarget;
  frameAncestors: string;
  /** The browser attached the credential, so only the preview's own pages may read the response. */
  byCookie: boolean;
  /** Headers that let the requesting page read the response. */
  cors: OutgoingHttpHeaders | undefined;
}

/** Builds the response headers for the client. */
export function buildResponseHeaders(
  answer: IncomingMessage,
  { target, frameAncestors, byCookie, cors }: ResponseRules,
): OutgoingHttpHeaders {
  const result: OutgoingHttpHeaders = {};
  const perConnection = hopByHopHeaders(answer.headers.connection);
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    if (values && !perConnection.has(name) && !dropped.has(name)) result[name] = values;
  }
  const cookies = (answer.headers["set-cookie"] ?? []).flatMap(
    (cookie) => rewriteSetCookie(cookie, target) ?? [],
  );
  if (cookies.length > 0) result["set-cookie"] = cookies;
  if (answer.headers.location !== undefined)
    result.location = rewriteLocation(answer.headers.location, target);
  const policies = [
    answer.headersDistinct["content-security-policy"] ?? [],
    `frame-ancestors ${frameAncestors}`,
  ].flat();
  if (target.form === "path") {
    policies.push(sandboxPolicy);
    // A page without an origin could not load its own images and scripts.
    delete result["cross-origin-resource-policy"];
  }
  result["content-security-policy"] = policies.join(", ");
  if (byCookie) result["cross-origin-resource-policy"] = "same-origin";
  if (!cors) return result;
  return { ...result, ...cors, vary: [...(answer.headersDistinct.vary ?? []), "origin"].join(", ") };
}

/** Rewrites a redirect to the app itself to the preview's URL. */
function rewriteLocation(location: string, target: PreviewTarget): string {
  const base = `http://localhost:${target.port}${target.appPath}`;
  if (!URL.canParse(location, base)) return location;
  const to = new URL(location, base);
  const port = Number(to.port || (to.protocol === "https:" ? 443 : 80));
  const inside = loopbackNames.has(to.hostname) && port === target.port;
  const ownHost = target.form === "host" && to.host === new URL(target.origin).host;
  if (!inside && !ownHost) return location;
  // An app that knows its prefix may have added it.
  const prefixes = [`${target.prefix}/`, target.cookiePath, "/"];
  const below = to.pathname.slice(prefixes.find((prefix) => to.pathname.startsWith(prefix))!.length);
  // The server may have several names; a preview's own host has no path prefix.
  return `${target.form === "host" ? target.origin : target.prefix}/${below}${to.search}${to.hash}`;
}

const loopbackNames = new Set(["localhost", "127.0.0.1", "[::1]", "0.0.0.0"]);

/**
 * Lets a page of any origin read the response if its URL has a token: that token already grants
 * access.
 */
export function getCorsHeaders(request: IncomingMessage): OutgoingHttpHeaders | undefined {
  const {
    origin,
    "access-control-request-method": method,
    "access-control-request-headers": names,
  } = request.headers;
  if (origin === undefined) return undefined;
  const preflight = {
    ...(method === undefined ? {} : { "access-control-allow-methods": method }),
    ...(names === undefined ? {} : { "access-control-allow-headers": names }),
    "access-control-max-age": "600",
  };
  return {
    "access-control-allow-origin": origin,
    "access-control-allow-credentials": "true",
    "access-control-expose-headers": "*",
    ...(request.method === "OPTIONS" ? preflight : {}),
  };
}
