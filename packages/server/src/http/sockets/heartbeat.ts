import type { WebSocket, WebSocketServer } from "ws";

/**
 * Pings every socket each `everyMs` and ends those that did not answer the previous ping. Returns a
 * function that stops it.
 */
export function startHeartbeat(server: WebSocketServer, everyMs: number): () => void {
  const silent = new WeakSet<WebSocket>();
  server.on("connection", (socket: WebSocket) => {
    socket.on("pong", () => silent.delete(socket));
  });
  const timer = setInterval(() => {
    for (const socket of server.clients) {
      if (socket.isPaused) {
        // Its pongs wait unread behind its other frames; writing reveals a broken connection.
        silent.delete(socket);
        socket.ping();
        continue;
      }
      if (silent.has(socket)) {
        socket.terminate();
        continue;
      }
      silent.add(socket);
      socket.ping();
    }
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
