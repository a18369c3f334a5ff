import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket, { WebSocketServer } from "ws";
import { StateReceipts } from "./state-receipts.ts";

let server: WebSocketServer;
beforeAll(async () => {
  server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
});
afterAll(() => server.close());

/** Both ends of a connection whose client answers pings only when it is told to. */
async function connect(): Promise<{ client: WebSocket; socket: WebSocket }> {
  const { port } = server.address() as AddressInfo;
  const client = new WebSocket(`ws://127.0.0.1:${port}`, { autoPong: false });
  const [[socket]] = await Promise.all([once(server, "connection"), once(client, "open")]);
  return { client, socket };
}

test("a client that does not answer delays one call, until it answers again", async () => {
  const { client, socket } = await connect();
  const receipts = new StateReceipts(socket, { maxWaitMs: 100, maxEchoMs: 100 });
  await receipts.settle();
  receipts.expect({})();
  const [first] = await once(client, "ping");
  const began = performance.now();
  await receipts.settle();
  expect(performance.now() - began).toBeGreaterThan(90);
  const silent = performance.now();
  await receipts.settle();
  await receipts.echo();
  expect(performance.now() - silent).toBeLessThan(90);

  client.pong(first);
  client.pong((await once(client, "ping"))[0]);
  await once(socket, "pong");
  client.on("ping", (data) => client.pong(data));
  receipts.expect({})();
  await receipts.settle();
  await receipts.echo();
  client.terminate();
});
