import type { Server as HttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { duplicateDescriptor } from "@sandpiper/sandbox/kernel/descriptors";

/** Connections that the system keeps until they are accepted, so that a burst need not retry. */
export const connectionBacklog = 4_096;

/** Connections that are accepted in one round of the event loop. */
const acceptsPerRound = 8;

/**
 * Accepts several connections in each round of the event loop, through duplicates of the listening
 * socket: libuv accepts one for each. With one alone, a new connection waits for a whole round for
 * each one before it. `close` resolves when the connections that came so have ended.
 */
export function acceptMore(server: HttpServer): { close(): Promise<unknown> } {
  const { fd } = (server as unknown as { _handle: { fd: number } })._handle;
  const others = Array.from({ length: acceptsPerRound - 1 }, (): Server => {
    // The options of an HTTP server.
    const other = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      server.emit("connection", socket);
    });
    other.maxConnections = server.maxConnections;
    // The duplicates share one queue, whose length is the one of the last call.
    return other.listen({ fd: duplicateDescriptor(fd), backlog: connectionBacklog });
  });
  return {
    close: () => Promise.all(others.map((other) => new Promise((resolve) => other.close(resolve)))),
  };
}
