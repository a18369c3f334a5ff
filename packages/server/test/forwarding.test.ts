import { once } from "node:events";
import { request } from "node:http";
import { Readable } from "node:stream";
import { buffer, json } from "node:stream/consumers";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import WebSocket from "ws";
import { HttpNodes, send } from "./support/http-nodes.ts";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { TerminalClient } from "./support/terminal-client.ts";
import { webSocketServer } from "./support/web-socket-server.ts";

/** Work in a real sandbox that is asked of a node which does not own it: `a`, while `b` does. */

const size = 160 * 1024 * 1024;
/** What the three nodes and the client may need for it together, bytes. */
const maxMemory = 128 * 1024 * 1024;
const port = 8011;

let server: TestPlatform;
let nodes: HttpNodes;
let id: string;
beforeAll(async () => {
  server = await startTestPlatform();
  const { services, store, sandboxes } = server.platform;
  nodes = await HttpNodes.start(services, store);
  id = (await server.call("POST", "/api/v1/sandboxes")).body.id;
  nodes.owners.set(id, "b");
  const sandbox = await sandboxes.running(id);
  const pages =
    "mkdir -p /tmp/www && cd /tmp/www && echo inside > index.html && exec python3 -m http.server 8011";
  for (const argv of [
    ["sh", "-c", pages],
    ["python3", "-c", webSocketServer],
  ])
    (await sandbox.exec({ argv })).stdin.end();
  await until(async () => (await preview("/")).statusCode === 200);
});
beforeEach(() => void nodes.users());
afterAll(async () => {
  await nodes.close();
  await server.stop();
});

const asUser = () => ({ "x-session-api-key": server.key });
const at = (path: string) => nodes.get("a").url + path;
const hostOf = (one: number) => `${one}-${id}.localhost:${new URL(nodes.get("a").url).port}`;
const preview = (path: string) => send(at(path), { headers: { ...asUser(), host: hostOf(port) } });

test("a large file goes up and comes down piece by piece", async () => {
  const files = at(`/api/v1/sandboxes/${id}/files?path=large.bin`);
  const before = process.memoryUsage().rss;
  let most = 0;
  const watch = setInterval(() => {
    most = Math.max(most, process.memoryUsage().rss - before);
  }, 20);
  const piece = Buffer.alloc(1024 * 1024, 7);
  const up = request(files, {
    method: "PUT",
    headers: { ...asUser(), "content-type": "application/octet-stream" },
    agent: false,
  });
  Readable.from(Array.from({ length: size / piece.length }, () => piece)).pipe(up);
  const [stored] = await once(up, "response");
  expect([stored.statusCode, await json(stored)]).toEqual([200, { success: true }]);
  const down = await send(files, { headers: asUser() });
  expect(down.headers["content-length"]).toBe(String(size));
  let read = 0;
  for await (const chunk of down) read += (chunk as Buffer).length;
  clearInterval(watch);
  expect(read).toBe(size);
  expect(nodes.users()).toEqual(["b"]);
  expect(most).toBeLessThan(maxMemory);
});

test("a terminal works, and its exit code closes the socket", async () => {
  const client = new TerminalClient(
    { url: nodes.get("a").url, key: server.key },
    `/agent/${id}/sockets/terminal?cols=91&rows=17`,
  );
  client.type("stty size\r");
  await client.shows(/17 91/);
  client.type("exit 7\r");
  expect(await client.closed).toEqual({ code: 1000, reason: "exit 7" });
  expect(nodes.users()).toEqual(["b"]);
});

test("commands run at the owner, over REST and over the socket of commands", async () => {
  const ran = await send(at(`/api/bash/execute_bash_command?sandbox_id=${id}`), {
    method: "POST",
    headers: { ...asUser(), "content-type": "application/json" },
    body: JSON.stringify({ command: "echo from there" }),
  });
  expect(await json(ran)).toMatchObject({ stdout: "from there\n" });
  const socket = new WebSocket(at(`/sockets/bash-events?sandbox_id=${id}`).replace("http", "ws"), {
    headers: asUser(),
  });
  await once(socket, "open");
  socket.send(JSON.stringify({ command: "echo over a socket" }));
  const frames: string[] = [];
  socket.on("message", (data) => frames.push(String(data)));
  await until(() => frames.find((frame) => frame.includes("over a socket\\n")));
  socket.close();
  await once(socket, "close");
  expect(nodes.users()).toEqual(["b"]);
});

test("previews are shown by host name and by path", async () => {
  const byHost = await preview("/");
  expect([byHost.statusCode, (await buffer(byHost)).toString()]).toEqual([200, "inside\n"]);
  const byPath = await send(at(`/preview/${id}/${port}/`), { headers: asUser() });
  expect([byPath.statusCode, (await buffer(byPath)).toString()]).toEqual([200, "inside\n"]);
  expect(nodes.users()).toEqual(["b"]);
  const refused = await send(at(`/preview/${id}/${port}/`));
  expect([refused.statusCode, nodes.users()]).toEqual([401, []]);
});

test("a WebSocket into the sandbox is joined through both nodes", async () => {
  for (const [path, headers] of [
    ["/", { host: hostOf(8012) }],
    [`/preview/${id}/8012/`, {}],
  ] as const) {
    const socket = new WebSocket(at(path).replace("http", "ws"), {
      headers: { ...asUser(), ...headers },
      perMessageDeflate: false,
    });
    await once(socket, "open");
    socket.send("over two walls");
    expect(String((await once(socket, "message"))[0])).toBe("over two walls");
    socket.close();
    await once(socket, "close");
    expect(nodes.users()).toEqual(["b"]);
  }
  const plain = new WebSocket(at(`/preview/${id}/${port}/`).replace("http", "ws"), { headers: asUser() });
  const [, answer] = await once(
    plain.on("error", () => {}),
    "unexpected-response",
  );
  // The app has no WebSockets: its ordinary answer is passed on whole.
  expect([answer.statusCode, (await buffer(answer)).toString()]).toEqual([200, "inside\n"]);
});
