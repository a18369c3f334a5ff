import { once } from "node:events";
import { request } from "node:http";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import WebSocket from "ws";
import { startTestPlatform, type TestPlatform, until } from "./support/platform.ts";
import { webSocketServer } from "./support/web-socket-server.ts";

/** Previews of servers that run in real sandboxes. */

let server: TestPlatform;
let id: string;
beforeAll(async () => {
  server = await startTestPlatform();
  id = (await server.call("POST", "/api/v1/sandboxes")).body.id;
  const sandbox = await server.running(id);
  const commands = [
    [
      "sh",
      "-c",
      "mkdir -p /tmp/www && cd /tmp/www && echo 'Hello from inside' > index.html && exec python3 -m http.server 8011",
    ],
    ["python3", "-c", webSocketServer],
  ];
  for (const argv of commands) (await sandbox.exec({ argv })).stdin.end();
  for (const port of [8011, 8012]) await until(async () => (await get(port, "/")).status !== 502);
});
afterAll(() => server.stop());

const hostOf = (port: number) => `${port}-${id}.localhost:${new URL(server.url).port}`;

async function get(port: number, path: string): Promise<{ status: number; text: string }> {
  const call = request(server.url + path, {
    headers: { host: hostOf(port), "x-session-api-key": server.key },
    agent: false,
  });
  const [answer] = await once(call.end(), "response");
  return { status: answer.statusCode, text: (await buffer(answer)).toString() };
}

test("a server in a sandbox is seen through the link that the sandbox's record holds", async () => {
  const { body } = await server.call("GET", `/api/v1/sandboxes?id=${id}`);
  const url = new URL(body[0].exposed_urls.find((one: { name: string }) => one.name === "WORKER_1").url);
  expect(url.host).toBe(hostOf(8011));
  const answer = await fetch(`${server.url}/preview/${id}/8011/${url.search}`);
  expect([answer.status, await answer.text()]).toEqual([200, "Hello from inside\n"]);
});

test("a WebSocket into a sandbox works", async () => {
  const socket = new WebSocket(server.url.replace("http", "ws"), {
    headers: { host: hostOf(8012), "x-session-api-key": server.key },
    perMessageDeflate: false,
  });
  await once(socket, "open");
  socket.send("over the wall");
  expect(String((await once(socket, "message"))[0])).toBe("over the wall");
  socket.close();
  await once(socket, "close");
});

test("when nothing listens in the sandbox, the error contains the port", async () => {
  expect(await get(8013, "/")).toMatchObject({ status: 502, text: expect.stringContaining("port 8013") });
});

test("a paused sandbox wakes for its preview", async () => {
  await server.call("POST", `/api/v1/sandboxes/${id}/pause`, {});
  expect((await server.call("GET", `/api/v1/sandboxes?id=${id}`)).body[0].status).toBe("PAUSED");
  expect((await get(8011, "/")).text).toBe("Hello from inside\n");
  expect((await server.call("GET", `/api/v1/sandboxes?id=${id}`)).body[0].status).toBe("RUNNING");
});

test("a preview requested while its sandbox starts is answered once the sandbox runs", async () => {
  const started = await server.call("POST", "/api/v1/sandboxes");
  expect(started.body.status).toBe("STARTING");
  const answer = await fetch(`${server.url}/preview/${started.body.id}/8011/`, {
    headers: { "x-session-api-key": server.key },
  });
  expect(answer.status).toBe(502);
  expect(await answer.text()).toContain("port 8011");
});

test("the link of a deleted sandbox opens nothing", async () => {
  const { body } = await server.call("POST", "/api/v1/sandboxes");
  const link = await server.call("GET", `/api/v1/sandboxes/${body.id}/preview?port=8011`);
  expect(Date.parse(link.body.expires_at)).toBeGreaterThan(Date.now());
  await server.call("DELETE", `/api/v1/sandboxes/${body.id}`);
  expect((await fetch(link.body.path_url)).status).toBe(401);
  expect((await server.call("GET", `/api/v1/sandboxes/${body.id}/preview?port=8011`)).status).toBe(404);
});
