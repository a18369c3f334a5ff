import {
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from "node:http";
import { request as httpsRequest } from "node:https";
import { type Duplex, pipeline } from "node:stream";

/** Headers of one connection. */
const hopHeaders = ["connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"];

/**
 * Streams a request to the server and its response back. `fail` answers when the server cannot be
 * reached.
 */
export function forwardRequest(
  request: IncomingMessage,
  response: ServerResponse,
  server: URL,
  fail: (error: Error) => void,
): void {
  const toServer = send(request, server, {});
  response.once("close", () => toServer.destroy());
  toServer.on("error", (error) => (response.headersSent ? response.destroy() : fail(error)));
  toServer.on("response", (answer) => {
    // The server may answer before it has read the whole body.
    if (!request.complete) response.shouldKeepAlive = false;
    response.writeHead(answer.statusCode!, withoutHopHeaders(answer.headers));
    response.flushHeaders();
    pipeline(answer, response, () => request.resume());
  });
  request.pipe(toServer);
}

/** Connects a WebSocket's handshake and then its bytes with the server. */
export function forwardUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer, server: URL): void {
  const toServer = send(request, server, { connection: "Upgrade", upgrade: request.headers.upgrade });
  socket.on("error", () => toServer.destroy());
  socket.once("close", () => toServer.destroy());
  toServer.on("error", () => socket.destroy());
  toServer.on("response", (answer) => {
    socket.write(headOf(answer, ["connection: close"]));
    pipeline(answer, socket, () => {});
  });
  toServer.on("upgrade", (answer, upstream, first) => {
    socket.write(headOf(answer, ["connection: Upgrade"]));
    if (first.length > 0) socket.write(first);
    if (head.length > 0) upstream.write(head);
    pipeline(upstream, socket, () => {});
    pipeline(socket, upstream, () => {});
  });
  toServer.end();
}

function send(request: IncomingMessage, server: URL, extra: OutgoingHttpHeaders) {
  const make = server.protocol === "https:" ? httpsRequest : httpRequest;
  const headers = { ...withoutHopHeaders(request.headers), ...extra, host: server.host };
  // The server compares a page's origin with its own address. Other origins stay what they are.
  if (request.headers.origin === `http://${request.headers.host}`) headers.origin = server.origin;
  return make({
    protocol: server.protocol,
    hostname: server.hostname.replace(/^\[|\]$/g, ""),
    port: server.port,
    method: request.method,
    path: request.url,
    headers,
  });
}

function withoutHopHeaders(headers: IncomingHttpHeaders): OutgoingHttpHeaders {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !hopHeaders.includes(name)));
}

/** The head of an answer as text, without what belongs to the server's own connection. */
function headOf(answer: IncomingMessage, extra: readonly string[]): string {
  const lines = [`HTTP/1.1 ${answer.statusCode} ${answer.statusMessage}`, ...extra];
  for (let i = 0; i < answer.rawHeaders.length; i += 2) {
    const name = answer.rawHeaders[i]!;
    if (!hopHeaders.includes(name.toLowerCase()) && name.toLowerCase() !== "transfer-encoding")
      lines.push(`${name}: ${answer.rawHeaders[i + 1]}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}
