import type { WebSocket, WebSocketServer } from "ws";

/** Pings every socket in an interval (ms) and ends those that did not answer the ping before. Gives the function that stops it. */
export function startHeartbeat(server: WebSocketServer, everyMs: number): () => void {
  const silent = new WeakSet<WebSocket>();
  server.on("connection", (socket: WebSocket) => {
    socket.on("pong", () => silent.delete(socket));
  });
  const timer = setInterval(() => {
    for (const socket of server.clients) {
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
