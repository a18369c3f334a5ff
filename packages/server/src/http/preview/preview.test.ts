import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { echo, navigation, PreviewBench } from "./testing.ts";

let bench: PreviewBench;
beforeAll(async () => {
  bench = await PreviewBench.start();
  await bench.app(8000, echo);
});
afterAll(() => bench.close());

test("a link opens a preview under its host name: the browser gets a cookie and leaves the token behind", async () => {
  const { url } = await bench.link(8000);
  expect(url.host).toBe(bench.host(8000));
  const first = await bench.call(`/a/b${url.search}&x=1`, { host: url.host, key: null, headers: navigation });
  expect(first).toMatchObject({
    status: 303,
    headers: { location: `http://${url.host}/a/b?x=1`, "referrer-policy": "no-referrer" },
  });
  const [secure, lax] = first.headers["set-cookie"]!;
  expect(secure).toMatch(/^sandpiper_preview=\S+; Path=\/; HttpOnly; Max-Age=86(399|400); Secure; SameSite=None; Partitioned$/);
  expect(lax).toMatch(/^sandpiper_preview_lax=\S+; Path=\/; HttpOnly; Max-Age=\d+; SameSite=Lax$/);
  for (const cookie of [secure!, lax!]) {
    const headers = { ...navigation, cookie: `own=1; ${cookie.split(";")[0]}; other=2` };
    const { status, text } = await bench.call("/a/b?x=1", { host: url.host, key: null, headers });
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({ method: "GET", url: "/a/b?x=1", headers: { cookie: "own=1; other=2" } });
  }
});

test("a WebSocket passes in both directions", async () => {
  const server = await bench.app(8001, echo);
  const sockets = new WebSocketServer({ server, handleProtocols: () => "chat" });
  sockets.on("connection", (socket) => socket.on("message", (data, binary) => socket.send(data, { binary })));
  const cookie = await bench.session(8001);
  const socket = new WebSocket(`ws://127.0.0.1:${bench.server.port}/hot?x=1`, ["chat", "other"], {
    headers: { host: bench.host(8001), cookie, origin: `http://${bench.host(8001)}` },
  });
  await once(socket, "open");
  expect(socket.protocol).toBe("chat");
  socket.send("x".repeat(1_000_000));
  const [data] = await once(socket, "message");
  expect(data).toHaveLength(1_000_000);
  socket.close(4321, "bye");
  expect((await once(socket, "close"))[0]).toBe(4321);
});
