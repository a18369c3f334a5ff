import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startHeartbeat } from "./heartbeat.ts";

let server: WebSocketServer;
let stop: () => void;

beforeEach(async () => {
  server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  stop = startHeartbeat(server, 200);
});
afterEach(() => {
  stop();
  for (const socket of server.clients) socket.terminate();
  server.close();
});

test("a paused client counts as alive, and is pinged again once its frames are read", async () => {
  const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
  const [socket] = (await once(server, "connection")) as [WebSocket];
  const pings = async (count: number) => {
    for (let i = 0; i < count; i++) await once(client, "ping");
  };
  socket.pause();
  await pings(2);
  socket.resume();
  await pings(2);
  expect(client.readyState).toBe(client.OPEN);
  client.pause();
  const [code] = await once(socket, "close");
  expect(code).toBe(1006);
});
