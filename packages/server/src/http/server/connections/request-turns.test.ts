import { once } from "node:events";
import { createServer, get, type RequestListener } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { EventLoopScheduler, type TimeSlicedQueue } from "@sandpiper/core/scheduling/event-loop-scheduler";
import { expect, test } from "vitest";
import { RequestTurns } from "./request-turns.ts";

/** Serves with turns; `requests` counts what Node's parser gave to the server. */
async function serve(
  listener: RequestListener,
  scheduler: Pick<EventLoopScheduler, "queue"> = new EventLoopScheduler(),
) {
  const seen = { requests: 0 };
  const server = createServer((request, response) => {
    seen.requests++;
    turns.take(request, response, () => listener(request, response));
  });
  const turns = new RequestTurns(server, scheduler);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return { port, seen, server, [Symbol.asyncDispose]: async () => void server.close() };
}

/** Sends text over one connection; returns what came until the server ended it. */
async function send(port: number, text: string): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  socket.write(text);
  let received = "";
  for await (const piece of socket) received += piece;
  return received;
}

test("requests that a client sends at once are answered in order, one after the other", async () => {
  let open = 0;
  let most = 0;
  await using server = await serve((request, response) => {
    most = Math.max(most, ++open);
    setTimeout(() => {
      open--;
      response.end(request.url);
    }, 5);
  });
  const paths = ["/a", "/b", "/c", "/d"];
  const ask = (path: string, more = "") => `GET ${path} HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
  const answer = await send(
    server.port,
    paths.map((path) => ask(path, path === "/d" ? "Connection: close\r\n" : "")).join(""),
  );
  expect(answer.match(/\/[a-d]/g)).toEqual(paths);
  expect(most).toBe(1);
});

test("a thousand requests that come at once are parsed a few at a time, and all are answered", async () => {
  let most = 0;
  let answered = 0;
  await using server = await serve((_request, response) => {
    most = Math.max(most, server.seen.requests - answered++);
    response.end("ok");
  });
  const ask = (more = "") => `GET / HTTP/1.1\r\nHost: x\r\n${more}\r\n`;
  const answer = await send(server.port, ask().repeat(999) + ask("Connection: close\r\n"));
  expect(answer.match(/HTTP\/1\.1 200/g)).toHaveLength(1_000);
  expect(most).toBeLessThan(32);
});

test("requests that are sent while none is answered wait at the client", async () => {
  await using server = await serve((request, response) => {
    if (request.url === "/other") response.end("ok");
  });
  const socket = connect(server.port, "127.0.0.1");
  await once(socket, "connect");
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(300_000));
  for (let round = 0; round < 20; round++)
    await once(get({ port: server.port, path: "/other", agent: false }), "response");
  expect(socket.writableLength).toBeGreaterThan(0);
  expect(server.seen.requests).toBeLessThan(20 + 32);
  socket.destroy();
});

test("the answer to another client comes between the requests of one connection", async () => {
  const turns: (() => void)[] = [];
  const queue = { add: (work: () => void) => void turns.push(work) } as TimeSlicedQueue;
  const answered: string[] = [];
  await using server = await serve(
    (request, response) => {
      answered.push(request.url!);
      response.end("ok");
    },
    { queue: () => queue },
  );
  const arrival = (path: string) =>
    new Promise<void>((resolve) => {
      server.server.on("request", ({ url }) => url === path && resolve());
    });
  const [first, second] = [arrival("/many"), arrival("/other")];
  const many = connect(server.port, "127.0.0.1");
  many.resume().write("GET /many HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1_000));
  await first;
  const other = connect(server.port, "127.0.0.1");
  other.write("GET /other HTTP/1.1\r\nHost: x\r\n\r\n");
  await second;
  while (!answered.includes("/other")) {
    turns.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(answered.indexOf("/other")).toBeLessThan(10);
  many.destroy();
  other.destroy();
});

test("ten thousand pieces of a body that come at once are read some hundred in a turn", async () => {
  const turns: (() => void)[] = [];
  const queue = { add: (work: () => void) => void turns.push(work) } as TimeSlicedQueue;
  let pieces = 0;
  const server = createServer((request, response) => {
    request.on("data", () => pieces++).on("end", () => response.end(`${pieces}`));
  });
  new RequestTurns(server, { queue: () => queue });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const head = "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  const { port } = server.address() as AddressInfo;
  const answer = send(port, `${head}${"1\r\nx\r\n".repeat(10_000)}0\r\n\r\n`);
  let most = 0;
  let taken = 0;
  while (pieces < 10_000) {
    const before = pieces;
    turns.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
    if (pieces > before) taken++;
    most = Math.max(most, pieces - before);
  }
  expect(await answer).toMatch(/10000$/);
  expect(most).toBeLessThan(500);
  expect(taken).toBeGreaterThan(20);
  server.close();
});

test("of a body that comes quickly, a few reads are taken in a turn, whoever resumes the connection", async () => {
  const turns: (() => void)[] = [];
  const queue = { add: (work: () => void) => void turns.push(work) } as TimeSlicedQueue;
  const length = 8 * 1024 * 1024;
  let bytes = 0;
  const server = createServer((request, response) => {
    request.on("data", (piece: Buffer) => {
      bytes += piece.length;
    });
    request.on("end", () => response.end(`${bytes}`));
  });
  new RequestTurns(server, { queue: () => queue });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const head = `POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`;
  const { port } = server.address() as AddressInfo;
  const answer = send(port, head + "x".repeat(length));
  let most = 0;
  while (bytes < length) {
    const before = bytes;
    turns.shift()?.();
    // Rounds in which a connection that is not paused would be read further.
    for (let round = 0; round < 3; round++) await new Promise((resolve) => setImmediate(resolve));
    most = Math.max(most, bytes - before);
  }
  expect(await answer).toMatch(new RegExp(`${length}$`));
  expect(most).toBeLessThan(256 * 1024);
  server.close();
});

test("the frames behind a WebSocket's handshake reach the new protocol, in order", async () => {
  await using server = await serve(() => {});
  const received: string[] = [];
  const ended = new Promise<void>((resolve) => {
    server.server.on("upgrade", (_request, socket, head: Buffer) => {
      received.push(head.toString());
      socket.on("data", (bytes: Buffer) => received.push(bytes.toString())).on("end", resolve);
      socket.end();
    });
  });
  const socket = connect(server.port, "127.0.0.1");
  const body = Array.from({ length: 100 }, (_, index) => `${index}\r\n\r\n${"x".repeat(300)}`).join("");
  socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  socket.end(body);
  await ended;
  expect(received.join("").length).toBe(body.length);
  expect(received.join("") === body).toBe(true);
});
