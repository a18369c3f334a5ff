import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { type WebSocket, WebSocketServer } from "ws";
import { drive, type Order, stamped } from "./sockets-drive.ts";

/**
 * A bare `ws` server that sends platform-like frames to the sockets of a path, without keys,
 * states, resends or queues; optionally stored in plain SQLite first. Arguments: the names of the
 * paths.
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

const dir = mkdtempSync(join(tmpdir(), "sandpiper-bench-"));
const writer = new Worker(new URL("./sockets-floor-store.ts", import.meta.url), { workerData: { dir } });
const waiting: (() => void)[] = [];
let outbox: string[] = [];
writer.on("message", (stored: number) => {
  for (const done of waiting.splice(0, stored)) done();
});

/** Texts that are given in one turn travel together, as in the platform's store. */
function store(text: string): Promise<void> {
  if (outbox.push(text) === 1) {
    queueMicrotask(() => {
      writer.postMessage(outbox);
      outbox = [];
    });
  }
  return new Promise((resolve) => void waiting.push(resolve));
}

process.on("message", async (order: Order) => {
  const one = async (index: number) => {
    const content = [{ type: "text", text: stamped(order.length) }];
    const more = { llm_message: { role: "user", content }, activated_skills: [], extended_content: [] };
    const event = {
      id: randomUUID(),
      timestamp: new Date().toISOString(),
      kind: "MessageEvent",
      source: "user",
      ...more,
    };
    const text = JSON.stringify(event);
    if (order.store) await store(text);
    for (const socket of rooms.get(names[index % order.conversations]!)!) socket.send(text);
  };
  process.send!(await drive(order, one));
});
process.on("disconnect", async () => {
  writer.postMessage("close");
  await once(writer, "exit");
  process.exit();
});
server.listen(0, "127.0.0.1", () =>
  process.send!({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }),
);
