import { createServer, type RequestListener, type Server } from "node:http";
import type { EventLoopScheduler } from "@sandpiper/core/scheduling/event-loop-scheduler";
import type { FastifyServerOptions } from "fastify";
import type { Previews } from "../preview/preview.ts";

/**
 * The HTTP server under the routes. Previews are taken out before a route is looked for: nothing of the platform answers on their host names,
 * and what they carry is neither parsed nor limited in size.
 */
export function createListener(
  routes: RequestListener,
  previews: Previews,
  scheduler: EventLoopScheduler,
  options: FastifyServerOptions,
): Server {
  const server = createServer(
    // Only WebSockets leave HTTP: a client that offers HTTP/2 by an Upgrade header gets its answer in HTTP/1.1.
    { shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === "websocket" },
    (request, response) => {
      if (!previews.request(request, response)) routes(request, response);
    },
  );
  server.on("connection", () => scheduler.noteConnection());
  server.keepAliveTimeout = options.keepAliveTimeout!;
  // An upload may take its time; silence is what `connectionTimeout` bounds.
  server.requestTimeout = options.requestTimeout!;
  server.setTimeout(options.connectionTimeout!);
  return server;
}
