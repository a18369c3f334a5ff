import type { WebSocket, WebSocketServer } from "ws";

/** Pings every socket in an interval (ms) and ends those that did not answer the ping before. Gives the function that stops it. */
export function startHeartbeat(server: WebSocketServer, everyMs: number): () => void {
  const silent = new WeakSet<WebSocket>();
  server.on("connection", (socket: WebSocket) => {
    socket.on("pong", () => silent.delete(socket));
  });
  const timer = setInterval(() => {
    for (const socket of server.clients) {
      if (socket.isPaused) {
        // Its pongs wait unread behind what it sent too fast. A connection that is broken ends by what it is sent.
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
