import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { Forwarder } from "./forwarder.ts";
import { NodeClient } from "./node-client.ts";
import { Passes } from "./pass.ts";

/** How a client's socket ends that one node passes on to another. */

const passes = new Passes(randomBytes(32));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function listen(server: Server): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  ends.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** Opens a client's socket to an owner through another node. */
async function open() {
  const owner = createServer();
  const sockets = new WebSocketServer({ server: owner });
  const url = `http://127.0.0.1:${await listen(owner)}`;
  const client = new NodeClient(passes);
  const row = { incarnation: "owner", url, place: null, version: "1", isDraining: false };
  const forwarder = new Forwarder({ ownership: { locate: async () => row }, client });
  const front = createServer();
  front.on("upgrade", (request, connection, head) => {
    void forwarder.upgrade("s", { request, connection, head, isForwarded: false });
  });
  const connected = once(sockets, "connection");
  const socket = new WebSocket(`ws://127.0.0.1:${await listen(front)}/x`);
  const received: string[] = [];
  socket.on("message", (data) => received.push(String(data)));
  socket.on("error", () => {});
  const closed = new Promise<number>((resolve) => socket.once("close", resolve));
  const [ownerSocket, request] = (await connected) as [WebSocket, { socket: Socket }];
  await once(socket, "open");
  ends.push(() => socket.terminate());
  const raw = (socket as unknown as { _socket: Socket })._socket;
  /** Sends bytes of the owner, and waits until the client has them. */
  const send = async (bytes: number[]) => {
    const wanted = raw.bytesRead + bytes.length;
    request.socket.write(Buffer.from(bytes));
    await expect.poll(() => raw.bytesRead).toBe(wanted);
  };
  return { send, forwarder, socket, received, closed, owner: ownerSocket, connection: request.socket };
}

test("the socket of a client closes with 1012 when the connection to the owner breaks", async () => {
  const { socket, received, closed, owner, connection } = await open();
  for (const text of ["", "short", "x".repeat(300), "y".repeat(100_000)]) owner.send(text);
  owner.ping();
  await expect.poll(() => received.length).toBe(4);
  socket.send("to the owner");
  expect(String((await once(owner, "message"))[0])).toBe("to the owner");
  connection.resetAndDestroy();
  expect(await closed).toBe(1012);
  expect(received.map(({ length }) => length)).toEqual([0, 5, 300, 100_000]);
});

test("the client sees the owner's own close, and no other one", async () => {
  const { closed, owner, connection } = await open();
  owner.close(4004, "gone");
  expect(await closed).toBe(4004);
  connection.destroy();
});

test("a frame that broke off is not followed by a close frame", async () => {
  const { send, received, closed, connection } = await open();
  // The header announces five bytes.
  await send([0x81, 5, 0x61, 0x62]);
  connection.destroy();
  expect(await closed).toBe(1006);
  expect(received).toEqual([]);
});

test("a node that closes ends the sockets that it passes on with 1012, after a whole frame", async () => {
  const { send, forwarder, received, closed, owner, connection } = await open();
  await send([0x81, 5, 0x61, 0x62]);
  const left = once(owner, "close");
  forwarder.leave();
  connection.write(Buffer.from([0x63, 0x64, 0x65, 0x81, 1, 0x66]));
  expect(await closed).toBe(1012);
  expect(received).toEqual(["abcde"]);
  await left;
});

test("a node that closes does not wait long for the rest of a frame", async () => {
  const { send, forwarder, closed } = await open();
  await send([0x81, 5, 0x61, 0x62]);
  forwarder.leave();
  expect(await closed).toBe(1006);
});
