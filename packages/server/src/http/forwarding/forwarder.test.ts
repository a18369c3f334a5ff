import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import type { SandboxLocation } from "../../nodes/api.ts";
import type { NodeRow } from "../../store/node-store.ts";
import { Forwarder } from "./forwarder.ts";
import { NodeClient } from "./node-client.ts";
import { Passes, passHeader } from "./pass.ts";

/** Real servers: one that a client asks, and the nodes that it forwards to. */

const passes = new Passes(randomBytes(32));
const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

async function listen(handler: (request: IncomingMessage, response: ServerResponse) => void, port = 0) {
  const server = createServer(handler);
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  ends.push(() => stop(server));
  return server;
}

function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;

function nodeAt(port: number, incarnation = "owner"): NodeRow {
  return { incarnation, url: `http://127.0.0.1:${port}`, place: null, version: "1", isDraining: false };
}

/** A node that forwards what it is asked; errors become their status. */
async function startFront(locate: () => Promise<SandboxLocation>, isForwarded = false): Promise<Server> {
  const client = new NodeClient(passes);
  ends.push(() => client.close());
  const forwarder = new Forwarder({ ownership: { locate }, client });
  const front = await listen((incoming, response) => {
    forwarder.request("s", { request: incoming, response, isForwarded }).then(
      (handling) => handling === "here" && response.end("here"),
      (error: { status?: number; code?: string }) => response.writeHead(error.status ?? 500).end(error.code),
    );
  });
  front.on("upgrade", (incoming, connection, head) => {
    void forwarder.upgrade("s", { request: incoming, connection, head, isForwarded });
  });
  return front;
}

const ask = (front: Server, path = "/x", init?: RequestInit) =>
  fetch(`http://127.0.0.1:${portOf(front)}${path}`, init);

test("a request goes to the owner with its body, headers and a pass, and the answer comes back", async () => {
  const seen: {
    method?: string | undefined;
    url?: string | undefined;
    headers: IncomingMessage["headers"];
  }[] = [];
  const owner = await listen((incoming, response) => {
    seen.push(incoming);
    response.writeHead(201, { "x-own": ["a", "b"], "set-cookie": ["c=1", "d=2"] });
    incoming.pipe(response);
  });
  const front = await startFront(async () => nodeAt(portOf(owner)));
  const body = randomBytes(3_000_000).toString("base64");
  const answer = await ask(front, "/api/x?y=%2F", { method: "POST", body, headers: { "x-sent": "1" } });
  expect([answer.status, answer.headers.get("x-own")]).toEqual([201, "a, b"]);
  expect(answer.headers.getSetCookie()).toEqual(["c=1", "d=2"]);
  expect(await answer.text()).toBe(body);
  expect(seen).toMatchObject([{ method: "POST", url: "/api/x?y=%2F", headers: { "x-sent": "1" } }]);
  const passed = { node: "owner", method: "POST", url: "/api/x?y=%2F" };
  const pass = seen[0]!.headers[passHeader];
  expect(passes.check(passed, pass)).toEqual({ client: "127.0.0.1" });
  expect(passes.check({ ...passed, url: "/api/other" }, pass)).toBeUndefined();
  expect(passes.check({ ...passed, node: "another" }, pass)).toBeUndefined();
  expect(new Passes(randomBytes(32)).check(passed, pass)).toBeUndefined();
  expect(new Passes(randomBytes(32), () => Date.now() + 3_600_000).check(passed, pass)).toBeUndefined();
});

test("a node does not pass on a pass that a client made", async () => {
  const owner = await listen((incoming, response) => response.end(String(incoming.headers[passHeader])));
  const front = await startFront(async () => nodeAt(portOf(owner)));
  const forged = passes.make({ node: "x", method: "GET", url: "/x" }, { client: "1.1.1.1" });
  expect(await (await ask(front, "/x", { headers: { [passHeader]: forged } })).text()).not.toBe(forged);
});

test("a request waits for the node that takes over, and is sent once", async () => {
  const gone = await listen(() => {});
  const port = portOf(gone);
  await stop(gone);
  let requests = 0;
  const next = await listen((_incoming, response) => {
    requests++;
    response.end("next");
  });
  let asked = 0;
  const front = await startFront(async () => (++asked < 4 ? nodeAt(port) : nodeAt(portOf(next))));
  const answer = await ask(front, "/x", { method: "POST", body: "once" });
  expect([await answer.text(), requests, asked]).toEqual(["next", 1, 4]);
});

test("a write whose owner ends before it answers is not repeated", async () => {
  let requests = 0;
  const owner = await listen((incoming) => {
    requests++;
    incoming.socket.destroy();
  });
  const front = await startFront(async () => nodeAt(portOf(owner)));
  const answer = await ask(front, "/x", { method: "POST", body: "once" });
  expect([answer.status, await answer.text(), requests]).toEqual([502, "NodeFailed", 1]);
});

test("a stream arrives piece by piece, and ends at the owner when the client leaves", async () => {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const owner = await listen((_incoming, response) => {
    response.once("close", resolve);
    response.writeHead(200, { "content-type": "text/event-stream" }).write("data: 1\n\n");
  });
  const front = await startFront(async () => nodeAt(portOf(owner)));
  const leaving = new AbortController();
  const answer = await ask(front, "/x", { signal: leaving.signal });
  const { value } = await answer.body!.getReader().read();
  expect(Buffer.from(value!).toString()).toBe("data: 1\n\n");
  leaving.abort();
  await ended;
});

test("an upgraded connection is joined to the owner's", async () => {
  const owner = await listen(() => {});
  owner.on("upgrade", (incoming, connection) => {
    connection.write(
      `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${incoming.headers.upgrade}\r\n\r\n`,
    );
    connection.pipe(connection);
  });
  const front = await startFront(async () => nodeAt(portOf(owner)));
  const headers = { connection: "Upgrade", upgrade: "websocket" };
  const handshake = request({ host: "127.0.0.1", port: portOf(front), path: "/sockets/x", headers }).end();
  const [, connection] = await once(handshake, "upgrade");
  connection.write("echo");
  const [data] = await once(connection, "data");
  expect(String(data)).toBe("echo");
  connection.destroy();
});

test("a node that does not own the sandbox does not forward a forwarded request again", async () => {
  const other = await listen((_incoming, response) => response.end("other"));
  const front = await startFront(async () => nodeAt(portOf(other)), true);
  const answer = await ask(front);
  expect([answer.status, await answer.text()]).toEqual([421, ""]);
  const here = await startFront(async () => "here", true);
  expect(await (await ask(here)).text()).toBe("here");
});
