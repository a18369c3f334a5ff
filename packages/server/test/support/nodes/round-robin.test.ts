import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { startRoundRobin } from "./round-robin.ts";

const opened: (() => void | Promise<void>)[] = [];
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close();
});

/** A server that answers with its name and the request; a WebSocket gets its name. */
async function startNode(name: string): Promise<string> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.url === "/break") return void response.socket!.destroy();
    response.writeHead(201, { "set-cookie": ["a=1", "b=2"], "x-node": name });
    response.end(JSON.stringify({ name, method: request.method, url: request.url, body }));
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    socket.send(name);
    socket.on("message", (text) => socket.send(String(text)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  opened.push(async () => {
    server.closeAllConnections();
    for (const client of sockets.clients) client.terminate();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function startThree() {
  const proxy = await startRoundRobin(await Promise.all(["a", "b", "c"].map(startNode)));
  opened.push(() => proxy.close());
  return proxy;
}

const nodeOf = async (url: string, key: string, path = "/"): Promise<string> =>
  ((await (await fetch(url + path, { headers: { "x-session-api-key": key } })).json()) as { name: string })
    .name;

async function openSocket(url: string, key: string): Promise<{ socket: WebSocket; name: string }> {
  const socket = new WebSocket(url.replace("http", "ws"), { headers: { "x-session-api-key": key } });
  opened.push(() => socket.terminate());
  const [name] = await once(socket, "message");
  return { socket, name: String(name) };
}

test("two requests of a client in a row never reach the same server, sockets count, and other clients do not matter", async () => {
  const { url } = await startThree();
  const seen: string[] = [];
  for (let round = 0; round < 6; round++) {
    seen.push(await nodeOf(url, "ann"));
    await nodeOf(url, "bob");
    if (round % 2 === 0) await nodeOf(url, "bob");
    seen.push((await openSocket(url, "ann")).name);
  }
  for (const [index, name] of seen.entries()) expect(name).not.toBe(seen[index - 1]);
  expect(new Set(seen)).toEqual(new Set(["a", "b", "c"]));
});

test("method, path, body, status, and repeated headers arrive", async () => {
  const { url } = await startThree();
  const body = "x".repeat(3_000_000);
  const answer = await fetch(`${url}/a%20b?c=d`, { method: "PUT", body });
  expect(answer.status).toBe(201);
  expect(answer.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
  expect(await answer.json()).toMatchObject({ method: "PUT", url: "/a%20b?c=d", body });
});

test("frames go both ways, and the end of one side ends the other", async () => {
  const { url } = await startThree();
  const { socket } = await openSocket(url, "ann");
  socket.send("hello");
  expect(String((await once(socket, "message"))[0])).toBe("hello");
  const closed = once(socket, "close");
  socket.close(1000);
  expect((await closed)[0]).toBe(1000);
});

test("the proxy skips a server that does not listen and keeps the body, and a broken connection breaks for the client", async () => {
  const proxy = await startThree();
  proxy.nodes = ["http://127.0.0.1:1", proxy.nodes[0]!];
  for (let round = 0; round < 4; round++) {
    expect(await nodeOf(proxy.url, "ann")).toBe("a");
    const answer = await fetch(proxy.url, { method: "POST", body: "kept" });
    expect(await answer.json()).toMatchObject({ body: "kept" });
    expect((await openSocket(proxy.url, "ann")).name).toBe("a");
  }
  await expect(fetch(`${proxy.url}/break`)).rejects.toThrow();
  proxy.nodes = [];
  expect((await fetch(proxy.url)).status).toBe(502);
});
