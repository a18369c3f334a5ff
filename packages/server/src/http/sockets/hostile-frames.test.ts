import { once } from "node:events";
import { get } from "node:http";
import type { Socket } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  isFullState,
  key,
  startServer,
  type TestServer,
  TestSocket,
} from "../../../test/support/test-server.ts";

let server: TestServer;
let id: string;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  id = await server.addConversation();
});
afterAll(() => server.close());

async function open(): Promise<{ client: TestSocket; connection: Socket }> {
  const client = new TestSocket(server, `/sockets/events/${id}?session_api_key=${key}`);
  await client.until(isFullState);
  const { _socket: connection } = client.socket as unknown as { _socket: Socket };
  return { client, connection };
}

/** A client's frame, masked with zeros. */
function frame(opcode: number, payload: string, final = true): Buffer {
  const head = Buffer.from([opcode | (final ? 0x80 : 0), 0x80 | payload.length, 0, 0, 0, 0]);
  return Buffer.concat([head, Buffer.from(payload)]);
}

const repeat = (count: number, bytes: Buffer) => Buffer.concat(Array.from({ length: count }, () => bytes));

test("other clients are answered between the frames that a socket sends at once", async () => {
  const { client, connection } = await open();
  let pongs = 0;
  client.socket.on("pong", () => pongs++);
  connection.write(repeat(50_000, frame(9, "a")));
  await once(client.socket, "pong");
  const [answer] = await once(get({ port: server.port, path: "/health", agent: false }), "response");
  expect(answer.statusCode).toBe(200);
  expect(pongs).toBeLessThan(40_000);
  client.socket.terminate();
});

test("a message of thousands of fragments closes its socket", async () => {
  const { client, connection } = await open();
  connection.write(Buffer.concat([frame(1, "a", false), repeat(5_000, frame(0, "a", false))]));
  expect((await client.closed).code).toBe(1008);
});

test("nothing more is read from a socket that broke the protocol, and its connection ends", async () => {
  const { client, connection } = await open();
  const ended = new Promise((resolve) => connection.once("close", resolve));
  // The client goes on after the server has ended its half of the connection.
  connection.allowHalfOpen = true;
  client.socket.removeAllListeners();
  client.socket.on("error", () => {});
  connection.removeAllListeners("data").removeAllListeners("end").resume();
  const piece = repeat(8_000, frame(0, "a", false));
  const send = () => {
    while (connection.writable && connection.write(piece));
  };
  connection.on("drain", send).on("error", () => {});
  connection.write(frame(1, "a", false));
  send();
  await ended;
  // What the buffers of the two systems and of the server take.
  expect(connection.bytesWritten).toBeLessThan(32 * 1024 * 1024);
});
