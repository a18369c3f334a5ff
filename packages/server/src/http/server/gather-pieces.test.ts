import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { expect, test } from "vitest";
import { gatherPieces } from "./gather-pieces.ts";

/** Sends requests whose bodies have pieces of one byte; returns all that the server answers. */
async function send(port: number, requests: number, pieces: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  const head = (more: string) => `POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n${more}\r\n`;
  const body = `${"1\r\nx\r\n".repeat(pieces)}0\r\n\r\n`;
  socket.write(`${`${head("")}${body}`.repeat(requests - 1)}${head("Connection: close\r\n")}${body}`);
  let received = "";
  for await (const bytes of socket) received += bytes;
  return received;
}

test("bytes that a client sends as pieces of their own are joined; none is lost", async () => {
  let longest = 0;
  const server = createServer(async (request, response) => {
    let count = 0;
    for await (const piece of gatherPieces(request, response)) {
      longest = Math.max(longest, piece.length);
      count += piece.length;
    }
    response.end(`${count}`);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  expect((await send(port, 2, 50_000)).match(/\n50000(?=\r|H|$)/g)).toHaveLength(2);
  expect(longest).toBeGreaterThan(1_000);
  server.close();
});

test("a body that nobody reads does not stop the requests behind it", async () => {
  const server = createServer((request, response) => {
    gatherPieces(request, response);
    response.end("ok");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  expect((await send(port, 3, 100_000)).match(/HTTP\/1\.1 200/g)).toHaveLength(3);
  server.close();
});
