import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { hopByHopHeaders } from "@sandpiper/core/http-proxy";
import type { PreviewTarget } from "./address.ts";
import { cookieFromApp } from "./cookies.ts";

/**
 * Would reach beyond the preview: stored data, transport and reporting of the whole host or of a domain that the platform shares, and what only a
 * service worker for the whole host needs.
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

/** The page of an app in the path form: scripts and forms work, but it has no origin, so it cannot read or script the platform's pages. */
const sandboxPolicy = "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

/** `frameAncestors`: the sources of Content-Security-Policy that may show previews in a frame. */
export interface ResponseRules {
  target: PreviewTarget;
  frameAncestors: string;
  /** Nobody chose to send the credential: the answer is for the preview's own pages alone. */
  byCookie: boolean;
  /** Headers that let the page which made the request read the answer. */
  cors: OutgoingHttpHeaders | undefined;
}

/** The headers of the app's answer as the client gets them. */
export function responseHeaders(
  answer: IncomingMessage,
  { target, frameAncestors, byCookie, cors }: ResponseRules,
): OutgoingHttpHeaders {
  const result: OutgoingHttpHeaders = {};
  const perConnection = hopByHopHeaders(answer.headers.connection);
  for (const [name, values] of Object.entries(answer.headersDistinct)) {
    if (values && !perConnection.has(name) && !dropped.has(name)) result[name] = values;
  }
  const cookies = (answer.headers["set-cookie"] ?? []).flatMap(
    (cookie) => cookieFromApp(cookie, target) ?? [],
  );
  if (cookies.length > 0) result["set-cookie"] = cookies;
  if (answer.headers.location !== undefined) result.location = outerLocation(answer.headers.location, target);
  const policies = [
    answer.headersDistinct["content-security-policy"] ?? [],
    `frame-ancestors ${frameAncestors}`,
  ].flat();
  if (target.form === "path") {
    policies.push(sandboxPolicy);
    // Without an origin the page would be kept from its own pictures and scripts.
    delete result["cross-origin-resource-policy"];
  }
  result["content-security-policy"] = policies.join(", ");
  if (byCookie) result["cross-origin-resource-policy"] = "same-origin";
  if (!cors) return result;
  return { ...result, ...cors, vary: [...(answer.headersDistinct.vary ?? []), "origin"].join(", ") };
}

/** A redirect of the app as the client has to follow it: addresses of the app itself become those of the preview. */
function outerLocation(location: string, target: PreviewTarget): string {
  const base = `http://localhost:${target.port}${target.appPath}`;
  if (!URL.canParse(location, base)) return location;
  const to = new URL(location, base);
  const port = Number(to.port || (to.protocol === "https:" ? 443 : 80));
  const inside = loopbackNames.has(to.hostname) && port === target.port;
  const ownHost = target.form === "host" && to.host === new URL(target.origin).host;
  if (!inside && !ownHost) return location;
  // An app that knows its prefix may have put it there already.
  const prefixes = [`${target.prefix}/`, target.cookiePath, "/"];
  const below = to.pathname.slice(prefixes.find((prefix) => to.pathname.startsWith(prefix))!.length);
  // The server may have more names than the one that it knows; a preview's own host has no path before the app's.
  return `${target.form === "host" ? target.origin : target.prefix}/${below}${to.search}${to.hash}`;
}

const loopbackNames = new Set(["localhost", "127.0.0.1", "[::1]", "0.0.0.0"]);

/** Lets the page that holds a token in its URL read the answer, whatever its origin; the token has opened it, so nothing is given away. */
export function corsFor(request: IncomingMessage): OutgoingHttpHeaders | undefined {
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
