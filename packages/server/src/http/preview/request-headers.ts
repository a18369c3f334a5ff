import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { hopByHopHeaders } from "@sandpiper/core/http-proxy";
import type { PreviewTarget } from "./address.ts";
import { filterRequestCookies } from "./cookies.ts";

/** The client's forwarding headers are not trusted, and the app must not get the platform's key. */
const dropped = /^(?:forwarded|x-forwarded-.*|x-real-ip|x-session-api-key|host|cookie|content-length)$/;

/**
 * Builds the request headers for the app. Under a name that ends in `localhost` the app sees the
 * outer host; development servers reject other names, so otherwise the request looks as if sent to
 * `http://localhost:<port>`. `forApp`: the Authorization header, if any, is the app's
 * own. `upgrading` marks a WebSocket handshake.
 */
export function buildRequestHeaders(
  request: IncomingMessage,
  target: PreviewTarget,
  upgrading: boolean,
  forApp: boolean,
): OutgoingHttpHeaders {
  const { headers, headersDistinct } = request;
  const result: OutgoingHttpHeaders = {};
  const perConnection = hopByHopHeaders(headers.connection);
  for (const [name, values] of Object.entries(headersDistinct)) {
    if (values && !perConnection.has(name) && !dropped.test(name)) result[name] = values;
  }
  if (!forApp) delete result.authorization;
  const cookie = filterRequestCookies(headers.cookie, target);
  if (cookie !== undefined) result.cookie = cookie;
  result["x-forwarded-for"] = request.socket.remoteAddress;
  result.host = `localhost:${target.port}`;
  if (target.localName) {
    const { protocol, host, port } = new URL(target.origin);
    result.host = host;
    result["x-forwarded-host"] = host;
    result["x-forwarded-proto"] = protocol.slice(0, -1);
    result["x-forwarded-port"] = port || (protocol === "https:" ? "443" : "80");
  } else {
    rewriteOrigin(result, request, target);
  }
  if (target.form === "path") {
    result["x-forwarded-prefix"] = target.prefix;
    // Sent by a page without an origin: the app would take each request for a cross-site one.
    delete result["sec-fetch-site"];
  }
  if (upgrading) return { ...result, connection: "Upgrade", upgrade: headers.upgrade };
  // With `close`, an app may end the connection behind an early response and lose the response.
  return { ...result, ...getFramingHeaders(request), connection: "keep-alive" };
}

/**
 * Maps Origin and Referer of the preview's pages to `http://localhost:<port>` and drops other
 * Referers.
 */
function rewriteOrigin(
  result: OutgoingHttpHeaders,
  { headers }: IncomingMessage,
  target: PreviewTarget,
): void {
  const inside = `http://localhost:${target.port}`;
  const ownOrigin = headers.origin === target.origin || (target.form === "path" && headers.origin === "null");
  if (ownOrigin) result.origin = inside;
  const own = `${target.origin}${target.prefix}/`;
  if (headers.referer?.startsWith(own)) result.referer = `${inside}/${headers.referer.slice(own.length)}`;
  else delete result.referer;
}

/** Keeps the body's framing; a method that usually has a body gets an explicit zero length. */
function getFramingHeaders({ method = "", headers }: IncomingMessage): OutgoingHttpHeaders {
  if (headers["transfer-encoding"] !== undefined) return { "transfer-encoding": "chunked" };
  if (headers["content-length"] !== undefined) return { "content-length": headers["content-length"] };
  return ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"].includes(method) ? {} : { "content-length": "0" };
}
