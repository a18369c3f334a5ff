import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { type Duplex, pipeline } from "node:stream";
import { splice } from "@sandpiper/core/http-proxy";
import type { HostCredentials, RawHeaders } from "../credentials.ts";
import { judgeMethod } from "../policy/policy.ts";
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

/** Streams a request and its response. Never throws. */
export function forwardRequest(route: ProxyRoute, request: IncomingMessage, response: ServerResponse): void {
  const exchange = new Exchange(route.session, request.method!, route.target);
  const fail = (error: unknown) => {
    const refusal = exchange.fail(error);
    request.unpipe();
    if (response.headersSent) response.destroy();
    else refuse(response, refusal, !request.complete);
  };
  const attempt = (again: boolean) => {
    const { upstream, credentials } = open(route, request, exchange);
    // A server may close a kept connection just when it is reused.
    upstream.on("error", (error) =>
      again && upstream.reusedSocket && !response.headersSent ? guard(() => attempt(false)) : fail(error),
    );
    upstream.on("upgrade", (_answer, socket) => {
      socket.destroy();
      fail(new Refusal(502, `${route.target.host} switched to another protocol without a request.`));
    });
    upstream.on("response", (answer) =>
      guard(() => respond(answer, credentials, request, response, exchange)),
    );
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
  guard(() => attempt(!hasBody(request)));
}

function respond(
  answer: IncomingMessage,
  credentials: HostCredentials | undefined,
  request: IncomingMessage,
  response: ServerResponse,
  exchange: Exchange,
): void {
  const headers = keepEndToEnd(
    credentials?.maskHeaders(answer.rawHeaders) ?? answer.rawHeaders,
    "content-length",
  );
  response.sendDate = false;
  response.writeHead(answer.statusCode!, toReasonPhrase(answer.statusMessage ?? ""), [
    ...headers,
    ...lengthHeader(answer),
  ]);
  const done = (error: unknown) => {
    exchange.end(error ? "The response was cut off." : null);
    // After an early response the rest of the request must not block the connection.
    if (!request.complete) request.destroy();
  };
  if (credentials?.hasSent) pipeline(answer, credentials.maskBody(), response, done);
  else pipeline(answer, response, done);
}

/** Forwards a WebSocket handshake and joins the connections if the server agrees. Never throws. */
export function forwardUpgrade(
  route: ProxyRoute,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): void {
  const exchange = new Exchange(route.session, request.method!, route.target);
  const fail = (error: unknown) => refuseRaw(client, exchange.fail(error));
  try {
    const { upstream, credentials } = open(route, request, exchange);
    const startLine = (answer: IncomingMessage) =>
      `HTTP/1.1 ${answer.statusCode} ${toReasonPhrase(answer.statusMessage ?? "")}\r\n`;
    const headers = (answer: IncomingMessage) =>
      keepEndToEnd(credentials?.maskHeaders(answer.rawHeaders) ?? answer.rawHeaders);
    upstream.on("error", fail);
    upstream.on("upgrade", (answer, socket, first) => {
      client.write(
        `${startLine(answer)}${serializeHeaders([...headers(answer), "Connection", "Upgrade", "Upgrade", "websocket"])}\r\n`,
      );
      if (first.length > 0) socket.unshift(first);
      if (head.length > 0) client.unshift(head);
      splice(client, socket, { idleMs, onDone: () => exchange.end() });
    });
    upstream.on("response", (answer) => {
      client.write(
        `${startLine(answer)}${serializeHeaders([...headers(answer), "Connection", "close"])}\r\n`,
      );
      pipeline(answer, client, () => exchange.end("The server did not agree to a WebSocket."));
    });
    client.once("close", () => upstream.destroy());
    upstream.end();
  } catch (error) {
    fail(error);
  }
}

/** Starts the request to the server. Throws Refusal. */
function open({ session, target, path, secure }: ProxyRoute, request: IncomingMessage, exchange: Exchange) {
  const refusal = judgeMethod(session.policy, target, request.method!);
  if (refusal) throw new Refusal(403, refusal);
  const coding = request.headers["transfer-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "chunked")
    throw new Refusal(501, "Only the transfer coding chunked is supported.");
  const credentials = secure ? session.credentials.forTarget(target) : undefined;
  const own = keepEndToEnd(request.rawHeaders, "host", "content-length");
  const filled = credentials ? credentials.inject(own) : own;
  const upgrade = request.headers.upgrade ? ["Connection", "Upgrade", "Upgrade", "websocket"] : [];
  const headers: RawHeaders = [
    ...["Host", toAuthority(target, secure ? 443 : 80)],
    // A compressed body cannot be masked.
    ...(credentials?.hasSent ? dropHeader(filled, "accept-encoding") : filled),
    ...framingHeaders(request),
    ...upgrade,
  ];
  const upstream = httpRequest({
    ...{ host: target.host, port: target.port, method: request.method!, path, headers },
    ...{ timeout: idleMs, setDefaultHeaders: false },
    agent: session.agent(secure, !hasBody(request)),
  });
  upstream.on("socket", (socket) => exchange.setUpstream(socket));
  upstream.on("timeout", () =>
    upstream.destroy(new Refusal(504, `${target.host} did not answer for ${idleMs / 60_000} minutes.`)),
  );
  return { upstream, credentials };
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

function dropHeader(headers: RawHeaders, name: string): RawHeaders {
  return headers.filter((_text, index) => headers[index - (index % 2)]!.toLowerCase() !== name);
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
