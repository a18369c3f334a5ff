import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { FastifyServerOptions } from "fastify";
import type { Forwarding } from "../forwarding/forwarding.ts";
import type { Previews } from "../preview/preview.ts";
import type { ConnectionGuard } from "./connections/connection-guard.ts";
import { RequestTurns } from "./connections/request-turns.ts";

/** Connections above all limits that may be open while displaced ones are being closed. */
const closingConnections = 1_024;

/** Node reads the first one; what is before the server may read the other one. */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]!;
    if (name.length === 4 && name.toLowerCase() === "host") hosts++;
  }
  return hosts > 1;
}

/**
 * The HTTP server under the routes. Requests for previews leave before routing: no platform route
 * answers on their host names, and their bodies are neither parsed nor limited.
 */
export function createListener(
  routes: RequestListener,
  previews: Previews,
  {
    connections,
    scheduler,
    forwarding,
  }: {
    connections: ConnectionGuard;
    scheduler: EventLoopScheduler;
    forwarding: Pick<Forwarding, "receive"> | undefined;
  },
  options: FastifyServerOptions,
): Server {
  const server = createServer(
    // Only WebSockets are upgraded; a client that offers HTTP/2 gets its response in HTTP/1.1.
    { shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === "websocket" },
    (request, response) => {
      turns.take(request, response, () => {
        if (hasTwoHosts(request)) return void response.writeHead(400, { connection: "close" }).end();
        forwarding?.receive(request);
        if (!previews.request(request, response)) routes(request, response);
      });
    },
  );
  const turns = new RequestTurns(server, scheduler);
  server.on("connection", (connection) => {
    scheduler.noteConnection();
    connections.admit(connection);
  });
  server.maxConnections = connections.total + closingConnections;
  server.keepAliveTimeout = options.keepAliveTimeout!;
  // An upload may take long; `connectionTimeout` bounds silence.
  server.requestTimeout = options.requestTimeout!;
  server.setTimeout(options.connectionTimeout!);
  return server;
}
