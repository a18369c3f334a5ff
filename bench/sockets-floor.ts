import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type WebSocket, WebSocketServer } from "ws";
import { drive, type Order, stamped } from "./sockets-drive.ts";

/**
 * A bare `ws` server: frames like those of the platform to the sockets of a path, without a store, keys or queues. Takes the names of the paths
 * as arguments.
 */
const names = process.argv.slice(2);
const rooms = new Map<string, Set<WebSocket>>(names.map((name) => [name, new Set()]));
const server = createServer((_request, response) => void response.end("{}"));
new WebSocketServer({ server, perMessageDeflate: false }).on("connection", (socket, request) => {
  const room = rooms.get(new URL(request.url!, "http://localhost").pathname.split("/").at(-1)!)!;
  room.add(socket);
  socket.on("close", () => room.delete(socket));
  socket.send(JSON.stringify({ key: "full_state", value: {} }));
});
process.on("message", async (order: Order) => {
  process.send!(
    await drive(order, (index) => {
      const content = [{ type: "text", text: stamped(order.length) }];
      const more = { llm_message: { role: "user", content }, activated_skills: [], extended_content: [] };
      const event = { id: randomUUID(), timestamp: new Date().toISOString(), kind: "MessageEvent", source: "user", ...more };
      const text = JSON.stringify(event);
      for (const socket of rooms.get(names[index % order.conversations]!)!) socket.send(text);
    }),
  );
});
process.on("disconnect", () => process.exit());
server.listen(0, "127.0.0.1", () => process.send!({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }));
