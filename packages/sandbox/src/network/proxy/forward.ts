import {
  type ClientRequest,
  request as httpRequest,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { type Duplex, pipeline } from "node:stream";
import { splice } from "@sandpiper/core/http-proxy";
import type { ResponseMask } from "../masking/response-mask.ts";
import { judgeMethod } from "../policy/policy.ts";
import type { RawHeaders } from "../raw-headers.ts";
import { Exchange, toReasonPhrase } from "./exchange.ts";
import { keepEndToEnd, serializeHeaders } from "./headers.ts";
import { Refusal } from "./refusal.ts";
import type { ProxySession } from "./session.ts";
import { type Target, toAuthority } from "./target.ts";

/** The route of a request; its host was judged, its method was not. */
export interface ProxyRoute {
  session: ProxySession;
  target: Target;
  path: string;
  secure: boolean;
}

/** Limit without traffic, ms: long polls and slow models. */
export const idleMs = 600_000;

/** Streams a request and its response. Never rejects. */
export async function forwardRequest(
  route: ProxyRoute,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const exchange = new Exchange(route.session, request.method!, route.target);
  const fail = (error: unknown) => {
    const refusal = exchange.fail(error);
    request.unpipe();
    if (response.headersSent) response.destroy();
    else refuse(response, refusal, !request.complete);
  };
  const attempt = ({ headers, mask }: Outgoing, again: boolean) => {
    const upstream = open(route, request, headers, exchange);
    // A server may close a kept connection just when it is reused.
    upstream.on("error", (error) =>
      again && upstream.reusedSocket && !response.headersSent
        ? guard(() => attempt({ headers, mask }, false))
        : fail(error),
    );
    upstream.on("upgrade", (_answer, socket) => {
      socket.destroy();
      fail(new Refusal(502, `${route.target.host} switched to another protocol without a request.`));
    });
    upstream.on("response", (answer) => guard(() => respond(answer, mask, request, response, exchange)));
    // The response to an aborted request arrives as a response or an error.
    if (again) upstream.end();
    else pipeline(request, upstream, () => {});
    response.once("close", () => upstream.destroy());
  };
  const guard = (work: () => void) => {
    try {
      work();
    } catch (error) {
      fail(error);
    }
  };
  try {
    const outgoing = await prepare(route, request);
    if (response.destroyed || request.socket.destroyed) throw clientGone();
    attempt(outgoing, !hasBody(request));
  } catch (error) {
    fail(error);
  }
}

function respond(
  answer: IncomingMessage,
  mask: ResponseMask | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  exchange: Exchange,
): void {
  const hasContent = request.method !== "HEAD" && ![204, 304].includes(answer.statusCode!);
  const decoders = (hasContent && mask?.decoders(answer)) || [];
  const dropped = decoders.length > 0 ? ["content-length", "content-encoding"] : ["content-length"];
  const headers = keepEndToEnd(mask?.texts(answer.rawHeaders) ?? answer.rawHeaders, ...dropped);
  response.sendDate = false;
  response.writeHead(answer.statusCode!, getReason(answer, mask), [
    ...headers,
    ...(decoders.length > 0 ? [] : lengthHeader(answer)),
  ]);
  const done = (error: unknown) => {
    exchange.end(error ? "The response was cut off." : null);
    // After an early response the rest of the request must not block the connection.
    if (!request.complete) request.destroy();
  };
  if (mask?.masksBodies) pipeline([answer, ...decoders, mask.body(), response], done);
  else pipeline(answer, response, done);
}

function getReason({ statusMessage = "" }: IncomingMessage, mask: ResponseMask | undefined): string {
  return toReasonPhrase(mask?.texts([statusMessage])[0] ?? statusMessage);
}

/** Forwards a WebSocket handshake and joins the connections if the server agrees. Never rejects. */
export async function forwardUpgrade(
  route: ProxyRoute,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Promise<void> {
  const exchange = new Exchange(route.session, request.method!, route.target);
  const fail = (error: unknown) => refuseRaw(client, exchange.fail(error));
  try {
    const outgoing = await prepare(route, request);
    if (client.destroyed) throw clientGone();
    const { mask } = outgoing;
    const upstream = open(route, request, outgoing.headers, exchange);
    const startLine = (answer: IncomingMessage) =>
      `HTTP/1.1 ${answer.statusCode} ${getReason(answer, mask)}\r\n`;
    const headers = (answer: IncomingMessage, ...dropped: string[]) =>
      keepEndToEnd(mask?.texts(answer.rawHeaders) ?? answer.rawHeaders, ...dropped);
    upstream.on("error", fail);
    upstream.on("upgrade", (answer, socket, first) => {
      client.write(
        `${startLine(answer)}${serializeHeaders([...headers(answer), "Connection", "Upgrade", "Upgrade", "websocket"])}\r\n`,
      );
      if (first.length > 0) socket.unshift(first);
      if (head.length > 0) client.unshift(head);
      // A WebSocket may show what another request sends meanwhile.
      const through = mask?.frames();
      splice(client, socket, { idleMs, onDone: () => exchange.end(), ...(through && { through }) });
    });
    upstream.on("response", (answer) => {
      try {
        const decoders = mask?.decoders(answer) ?? [];
        const dropped = decoders.length > 0 ? ["content-length", "content-encoding"] : [];
        client.write(
          `${startLine(answer)}${serializeHeaders([...headers(answer, ...dropped), "Connection", "close"])}\r\n`,
        );
        const body = mask?.masksBodies ? [mask.body()] : [];
        const done = () => exchange.end("The server did not agree to a WebSocket.");
        pipeline([answer, ...decoders, ...body, client], done);
      } catch (error) {
        fail(error);
        answer.destroy();
      }
    });
    client.once("close", () => upstream.destroy());
    upstream.end();
  } catch (error) {
    fail(error);
  }
}

/** The headers that the proxy sends to the server, and the mask of the response. */
interface Outgoing {
  headers: RawHeaders;
  mask: ResponseMask | undefined;
}

/** Puts secrets into the headers of a request. Throws Refusal. */
async function prepare({ session, target, secure }: ProxyRoute, request: IncomingMessage): Promise<Outgoing> {
  const refusal = judgeMethod(session.policy, target, request.method!);
  if (refusal) throw new Refusal(403, refusal);
  const coding = request.headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked")
    throw new Refusal(501, "Only the transfer coding chunked is supported.");
  const credentials = await session.credentials.forTarget(target);
  const own = keepEndToEnd(request.rawHeaders, "host", "content-length");
  const filled = secure ? await credentials.inject(own) : own;
  const mask = credentials.mask();
  const upgrade = request.headers.upgrade ? ["Connection", "Upgrade", "Upgrade", "websocket"] : [];
  const headers: RawHeaders = [
    ...["Host", toAuthority(target, secure ? 443 : 80)],
    ...(mask ? mask.withoutEvading(filled) : filled),
    ...framingHeaders(request),
    ...upgrade,
  ];
  return { headers, mask };
}

function clientGone(): Refusal {
  return new Refusal(400, "The sandbox closed the connection.");
}

/** Starts the request to the server. */
function open(
  { session, target, path, secure }: ProxyRoute,
  request: IncomingMessage,
  headers: RawHeaders,
  exchange: Exchange,
): ClientRequest {
  const upstream = httpRequest({
    ...{ host: target.host, port: target.port, method: request.method!, path, headers },
    ...{ timeout: idleMs, setDefaultHeaders: false },
    agent: session.agent(secure, !hasBody(request)),
  });
  upstream.on("socket", (socket) => exchange.setUpstream(socket));
  upstream.on("timeout", () =>
    upstream.destroy(new Refusal(504, `${target.host} did not answer for ${idleMs / 60_000} minutes.`)),
  );
  return upstream;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
}

/** The length of a request's body as parsed by Node's strict parser. */
function framingHeaders(request: IncomingMessage): RawHeaders {
  if (request.headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", "chunked"];
  return lengthHeader(request);
}

function lengthHeader({ headers }: IncomingMessage): RawHeaders {
  const length = headers["transfer-encoding"] === undefined ? headers["content-length"] : undefined;
  return length === undefined ? [] : ["Content-Length", length];
}

export function refuse(response: ServerResponse, { status, message }: Refusal, last = false): void {
  const text = `${message}\n`;
  response.writeHead(status, toReasonPhrase(message), {
    "content-type": "text/plain; charset=utf-8",
    "content-length": Buffer.byteLength(text),
    ...(status === 407 ? { "proxy-authenticate": 'Basic realm="sandpiper"' } : {}),
    ...(last ? { connection: "close" } : {}),
  });
  response.end(text);
}

/** Writes a refusal to a connection without a response object, and ends it. */
export function refuseRaw(client: Duplex, { status, message }: Refusal): void {
  const text = `${message}\n`;
  const headers = [
    ...["Content-Type", "text/plain; charset=utf-8"],
    ...["Content-Length", String(Buffer.byteLength(text)), "Connection", "close"],
    ...(status === 407 ? ["Proxy-Authenticate", 'Basic realm="sandpiper"'] : []),
  ];
  client.end(`HTTP/1.1 ${status} ${toReasonPhrase(message)}\r\n${serializeHeaders(headers)}\r\n${text}`);
}
