import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";
import { hopByHopHeaders } from "@sandpiper/core/http-proxy";
import type { PreviewTarget } from "./address.ts";
import { cookiesForApp } from "./cookies.ts";

/** What a client says about its way here is not believed, and the platform's key is not for the app. */
const dropped = /^(?:forwarded|x-forwarded-.*|x-real-ip|x-session-api-key|host|cookie|content-length)$/;

/**
 * The headers of a request as the app in the sandbox gets them. Under a name that ends in `localhost` the app sees the outer host; development
 * servers refuse other names, so under these and in the path form a request looks as if the page had been opened at `http://localhost:<port>`.
 * `forApp` tells whether an Authorization header is the app's own; `upgrading`, whether the request is a WebSocket's handshake.
 */
export function requestHeaders(
  request: IncomingMessage,
  target: PreviewTarget,
  upgrading: boolean,
  forApp: (authorization: string) => boolean,
): OutgoingHttpHeaders {
  const { headers, headersDistinct } = request;
  const result: OutgoingHttpHeaders = {};
  const perConnection = hopByHopHeaders(headers.connection);
  for (const [name, values] of Object.entries(headersDistinct)) {
    if (values && !perConnection.has(name) && !dropped.test(name)) result[name] = values;
  }
  if (headers.authorization !== undefined && !forApp(headers.authorization)) delete result.authorization;
  const cookie = cookiesForApp(headers.cookie, target);
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
    sameOriginInside(result, request, target);
  }
  if (target.form === "path") {
    result["x-forwarded-prefix"] = target.prefix;
    // The page has no origin of its own here: it would tell the app that each of its requests comes from another site.
    delete result["sec-fetch-site"];
  }
  if (upgrading) return { ...result, connection: "Upgrade", upgrade: headers.upgrade };
  // An app that is told that the connection ends cuts it off behind an early answer, and the answer with it.
  return { ...result, ...framing(request), connection: "keep-alive" };
}

/** Makes Origin and Referer of the preview's own pages those of `http://localhost:<port>`, and drops other Referers, which are not the app's business. */
function sameOriginInside(
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

/** A body goes on in the framing in which it came; a method that usually has one says that there is none. */
function framing({ method = "", headers }: IncomingMessage): OutgoingHttpHeaders {
  if (headers["transfer-encoding"] !== undefined) return { "transfer-encoding": "chunked" };
  if (headers["content-length"] !== undefined) return { "content-length": headers["content-length"] };
  return ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"].includes(method) ? {} : { "content-length": "0" };
}
