import { once } from "node:events";
import { readdirSync } from "node:fs";
import type { Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  basic,
  closed,
  ownAddress,
  recordRequests,
  type SeenRequest,
  serve,
  TestProxy,
  token,
} from "../../../test/support/egress.ts";

const address = ownAddress();
let proxy: TestProxy;
const servers: { close(): unknown }[] = [];
/** Requests that reached a server. */
const seen: SeenRequest[] = [];
const echo = recordRequests(seen);

beforeAll(async () => {
  proxy = await TestProxy.open({
    resolve: async () => [address],
  });
  servers.push(
    await serve(echo, { address, port: 80 }),
    await serve(echo, { address, port: 443, host: "a.test" }),
  );
  await proxy.attach("list", {
    allow: [
      { host: "a.test", ports: [80, 443, 22], methods: null },
      { host: "*.wild.test", ports: [80], methods: null },
      { host: "read.test", ports: [80, 443], methods: ["GET"] },
    ],
  });
  await proxy.attach("open", { mode: "open", private: [`${address}/32`] });
});
afterAll(async () => {
  await proxy.close();
  for (const server of servers) server.close();
});

/** The status of each answer in a stream of them. */
const statuses = (answer: string) =>
  [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
const auth = `Proxy-Authorization: ${basic(token)}\r\n`;

describe("requests through the proxy", () => {
  test("are forwarded with their own headers, several on one connection", async () => {
    seen.length = 0;
    const answer = await proxy.raw(
      "list",
      `GET http://a.test/one?x=1 HTTP/1.1\r\nHost: wrong.test\r\n${auth}Connection: x-hop\r\nX-Hop: 1\r\nX-Own: 1\r\nTE: gzip\r\n\r\n` +
        `POST http://A.TEST./two HTTP/1.1\r\nHost: a.test\r\n${auth}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n` +
        `HEAD http://a.test HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`,
      (text) => statuses(text).length === 3,
    );
    expect(statuses(answer)).toEqual([200, 200, 200]);
    expect(seen.map(({ host, line, body }) => [host, line, body]).sort()).toEqual([
      ["a.test", "GET /one?x=1", ""],
      ["a.test", "HEAD /", ""],
      ["a.test", "POST /two", "hello"],
    ]);
    expect(seen.find(({ line }) => line.startsWith("GET"))?.headers).toEqual([
      "Host",
      "a.test",
      "X-Own",
      "1",
    ]);
  });

  test("are streamed: the first part of a response arrives while the server still writes", async () => {
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    const server = await serve(
      (_request, response) =>
        void response.write("first", () => void arrived.then(() => response.end("last"))),
      {
        address,
        port: 4080,
      },
    );
    servers.push(server);
    const socket = proxy.connect("open");
    socket.write(`GET http://stream.test:4080/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    let answer = "";
    socket.on("data", (piece) => {
      answer += piece;
      if (answer.includes("first")) resolve();
      if (answer.includes("last")) socket.destroy();
    });
    await closed(socket);
    expect(answer).toContain("last");
  });

  test.each([
    [
      "a wrong token",
      `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: ${basic("wrong")}\r\n\r\n`,
      [407],
    ],
    [
      "a token of the same length",
      `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: ${basic(token.replace("t", "T"))}\r\n\r\n`,
      [407],
    ],
    ["no token", "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", [407]],
    ["CONNECT without a token", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", [407]],
    ["a path alone", `GET / HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["an https URL", `GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["user information", `GET http://a.test@b.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["a backslash", `GET http://b.test\\@a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    [
      "two lengths",
      `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
      [400],
    ],
    [
      "a length and chunks",
      `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      [400],
    ],
    [
      "another coding",
      `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      [501],
    ],
    ["a folded header", `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}X: a\r\n b\r\n\r\n`, [400]],
    ["a bare line feed", `GET http://a.test/ HTTP/1.1\nHost: a.test\n\n`, [400]],
    [
      "long headers",
      `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: ${"x".repeat(40_000)}\r\n\r\n`,
      [431],
    ],
    ["garbage", "\x16\x03\x01 garbage\r\n\r\n", [400]],
    ["CONNECT without a port", `CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["CONNECT to port 0", `CONNECT a.test:0 HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["CONNECT to port 70000", `CONNECT a.test:70000 HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["CONNECT with a path", `CONNECT a.test/x:80 HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
  ])("with %s are refused and reach no server", async (_what, bytes, expected) => {
    seen.length = 0;
    expect(statuses(await proxy.raw("list", bytes))).toEqual(expected);
    expect(seen).toEqual([]);
  });

  test("to misbehaving servers get a readable error and do not disturb others", async () => {
    const answers: Record<string, string> = {
      "/garbage": "nonsense\r\n\r\n",
      "/early": "",
      "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
      "/switch": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
      "/phrase": "HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n",
      "/zero": "HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n",
      "/both": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "/huge": `HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`,
    };
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", (data) => socket.end(answers[String(data).split(" ")[1]!] ?? "", "latin1"));
    }).listen(4081, address);
    servers.push(server);
    const found: Record<string, unknown> = {};
    for (const path of Object.keys(answers)) {
      const { code, out } = await proxy.curl("open", `http://bad.test:4081${path}`);
      found[path] = code === 0 ? statuses(out)[0] : "cut";
    }
    expect(found).toEqual({
      ...{
        "/garbage": 502,
        "/early": 502,
        "/cut": "cut",
        "/switch": 502,
        "/phrase": 200,
        "/zero": 502,
        "/both": 502,
        "/huge": 502,
      },
    });
    expect((await proxy.curl("open", "http://nothing.test:4099/")).out).toContain(
      "cannot be reached on port 4099 (ECONNREFUSED)",
    );
  });
});

describe("limits of the proxy", () => {
  test("detaching a sandbox closes its connections at once and refuses new ones", async () => {
    await proxy.attach("gone", { mode: "open" });
    const idle = createTcpServer(() => {}).listen(4082, address);
    servers.push(idle);
    const { socket, status } = await proxy.tunnel("gone", "idle.test:4082");
    expect(status).toBe(200);
    const cut = closed(socket);
    proxy.proxy.detach("gone");
    await cut;
    const late = proxy.connect("gone");
    await closed(late);
    expect(late.bytesRead).toBe(0);
    await expect
      .poll(() => new Promise((resolve) => idle.getConnections((_error, count) => resolve(count))))
      .toBe(0);
  });

  test("connections beyond the limit are closed, and new ones are accepted when others end", async () => {
    await proxy.attach("many", { mode: "open" });
    const all = Array.from({ length: 300 }, () => proxy.connect("many"));
    let refused = 0;
    for (const socket of all) socket.once("close", () => refused++);
    await expect.poll(() => refused).toBe(300 - 256);
    for (const socket of all) socket.destroy();
    await expect.poll(async () => (await proxy.curl("many", "http://a.test/")).code).toBe(0);
  });

  test("a flood of requests is queued, and few are pipelined", async () => {
    await proxy.attach("flood", { mode: "allowlist" });
    const request = `GET http://no.test/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`;
    expect(statuses(await proxy.raw("flood", request.repeat(1000))).length).toBeLessThanOrEqual(12);
    await proxy.proxy.forget("flood");
    await proxy.attach("flood", { mode: "allowlist" });
    const begin = performance.now();
    const sockets = Array.from({ length: 100 }, () => proxy.connect("flood"));
    await Promise.all(
      sockets.map(async (socket) => {
        for (let round = 0; round < 6; round++) {
          socket.write(request);
          await once(socket, "data");
        }
        socket.destroy();
      }),
    );
    // 600 requests: 400 at once, the others at 200 a second.
    expect(performance.now() - begin).toBeGreaterThan(800);
    const decisions = await proxy.proxy.decisions("flood", { limit: 10_000 });
    expect(decisions).toHaveLength(600);
    await proxy.proxy.forget("flood");
    expect(
      readdirSync(join(proxy.dir, "network", "decisions")).filter((name) => name.startsWith("flood")),
    ).toEqual([]);
  });

  test("pipelined requests do not open more connections to servers than a sandbox may have", async () => {
    let most = 0;
    let open = 0;
    const silent = createTcpServer((socket) => {
      most = Math.max(most, ++open);
      socket
        .on("error", () => {})
        .once("close", () => open--)
        .resume();
    }).listen(4084, address);
    servers.push(silent);
    await proxy.attach("wide", { mode: "open" });
    const request = `GET http://silent.test:4084/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`;
    const sockets = Array.from({ length: 70 }, () => proxy.connect("wide"));
    for (const socket of sockets) socket.write(request.repeat(10));
    const refusals = async () =>
      (await proxy.proxy.decisions("wide", { limit: 1_000 })).filter(({ reason }) =>
        reason?.includes("512 connections to servers"),
      ).length;
    await expect.poll(refusals, { timeout: 30_000 }).toBe(700 - 512);
    await expect.poll(() => open, { timeout: 30_000 }).toBe(512);
    expect(most).toBe(512);
    for (const socket of sockets) socket.destroy();
    await expect.poll(() => open, { timeout: 30_000 }).toBe(0);
    expect((await proxy.curl("wide", "http://a.test/")).code).toBe(0);
  });

  test("400 MB pass at the reader's pace in bounded memory", async () => {
    const total = 400 * 2 ** 20;
    const piece = Buffer.alloc(2 ** 20, 7);
    let sent = 0;
    const server: Server = await serve(
      (_request, response) => {
        const more = () => {
          while (sent < total) {
            sent += piece.length;
            if (!response.write(piece)) return void response.once("drain", more);
          }
          response.end();
        };
        more();
      },
      { address, port: 4083 },
    );
    servers.push(server);
    const socket = proxy.connect("open");
    socket.pause();
    socket.write(`GET http://big.test:4083/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    await expect.poll(() => sent).toBeGreaterThan(0);
    let before = -1;
    while (before !== sent) {
      before = sent;
      await delay(200);
    }
    expect(sent).toBeLessThan(20 * 2 ** 20);
    const idle = process.memoryUsage().rss;
    let most = 0;
    let got = 0;
    socket.on("data", (data) => {
      got += data.length;
      most = Math.max(most, process.memoryUsage().rss);
      if (got > total) socket.destroy();
    });
    socket.resume();
    await closed(socket);
    // Server, proxy and client share this process, and buffers wait for the collector.
    expect(most - idle).toBeLessThan(200 * 2 ** 20);
    expect(proxy.proxy.lastTraffic("open")).toBeGreaterThan(Date.now() - 10_000);
  });
});
