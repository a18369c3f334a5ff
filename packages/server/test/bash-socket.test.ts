import type { BashWebSocketClient } from "@openhands/typescript-client";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import WebSocket from "ws";
import { type Json, SocketClient, startTestPlatform, type TestPlatform, until } from "./support/platform.ts";

/** `/sockets/bash-events` of real sandboxes (agent-server.md section 6.2). */

let server: TestPlatform;
let sandbox: Json;
const sockets: SocketClient[] = [];
const execute = async (command: string): Promise<Json> =>
  (await server.call("POST", `/api/bash/execute_bash_command?sandbox_id=${sandbox.id}`, { command })).body;

function open(path: string): SocketClient {
  const socket = new SocketClient(`${server.url.replace("http", "ws")}${path}`);
  sockets.push(socket);
  return socket;
}

beforeAll(async () => {
  server = await startTestPlatform();
  sandbox = await newSandbox();
});
afterAll(async () => {
  vi.unstubAllGlobals();
  for (const socket of sockets) socket.close();
  await server?.stop();
});

async function newSandbox(): Promise<Json> {
  const { body } = await server.call("POST", "/api/v1/sandboxes");
  return until(async () => {
    const [found] = (await server.call("GET", `/api/v1/sandboxes?id=${body.id}`)).body;
    return found.status === "RUNNING" ? found : undefined;
  });
}

test("the released client gets stored and live events, each once", async () => {
  vi.stubGlobal("window", { WebSocket });
  const { BashWebSocketClient } = await import("@openhands/typescript-client");
  const before = await execute("echo before");
  const events: Json[] = [];
  const client: BashWebSocketClient = new BashWebSocketClient({
    host: `${server.url}/agent/${sandbox.id}`,
    apiKey: sandbox.session_api_key,
    resendMode: "all",
    callback: (event) => void events.push(event as Json),
  });
  client.start();
  await until(() => events.find(({ id }) => id === before.id));
  const outputs = await Promise.all(["one", "two", "three"].map((name) => execute(`echo ${name}`)));
  await until(() => outputs.every(({ id }) => events.some((event) => event.id === id)) || undefined);
  client.stop();
  const { items } = (await server.call("GET", `/api/bash/bash_events/search?sandbox_id=${sandbox.id}`)).body;
  expect(events).toEqual(items);
  expect(events[0]).toMatchObject({ kind: "BashCommand", command: "echo before", cwd: null });
});

test("a frame starts a command, an invalid frame gets an error, and old events come only on request", async () => {
  const socket = open("/sockets/bash-events");
  await new Promise((resolve) => socket.socket.once("open", resolve));
  socket.socket.send(JSON.stringify({ type: "auth", session_api_key: sandbox.session_api_key }));
  const bad = [
    "no json",
    "[]",
    "{}",
    '{"command":7}',
    '{"command":"true","timeout":-1}',
    `{"command":"a\\u0000b"}`,
    "null",
    '"x"',
  ];
  for (const frame of bad) socket.socket.send(frame);
  socket.socket.send(Buffer.from([0xff, 0xfe]));
  socket.socket.send(JSON.stringify({ type: "auth", session_api_key: "again" }));
  socket.socket.send(
    JSON.stringify({ command: "echo framed; sleep 0.3; exit 4", timeout: 9, cwd: "/tmp", more: 1 }),
  );
  const last = await socket.frame(({ exit_code }) => exit_code === 4);
  expect(socket.frames.filter(({ kind }) => kind === "ServerErrorEvent")).toHaveLength(bad.length + 1);
  expect(socket.frames.find(({ code }) => code === "InvalidFrame")).toMatchObject({
    source: "environment",
    detail: expect.any(String),
  });
  const events = socket.frames.filter(({ kind }) => kind !== "ServerErrorEvent");
  expect(events).toMatchObject([
    { kind: "BashCommand", cwd: "/tmp", timeout: 9 },
    { stdout: "framed\n", exit_code: null, command_id: last.command_id, order: 0 },
    { stdout: null, exit_code: 4, order: 1 },
  ]);
});

test("a socket and a route show one sandbox only, and only to authorized callers", async () => {
  const other = await newSandbox();
  await server.platform.apiKeys.adopt(
    "stranger",
    "second",
    "sp_stranger-0123456789abcdefghijklmnopqrstuvwxyz",
  );
  const stranger = "sp_stranger-0123456789abcdefghijklmnopqrstuvwxyz";
  const { key: readOnly } = await server.platform.apiKeys.add("default", {
    name: "reader",
    expiresAt: null,
    readOnly: true,
  });
  const closed = (path: string) => open(path).closed.then(({ code }) => code);
  expect(await closed(`/sockets/bash-events?session_api_key=${stranger}&sandbox_id=${sandbox.id}`)).toBe(
    4004,
  );
  expect(await closed(`/sockets/bash-events?session_api_key=${server.key}`)).toBe(4004);
  expect(await closed(`/sockets/bash-events?session_api_key=${server.key}&sandbox_id=..%2F..`)).toBe(4004);
  expect(
    await closed(
      `/sockets/bash-events?session_api_key=${server.key}&sandbox_id=${other.id}&resend_mode=since`,
    ),
  ).toBe(1008);
  expect(
    await closed(`/agent/${other.id}/sockets/bash-events?session_api_key=${sandbox.session_api_key}`),
  ).toBe(1006);

  const reader = open(
    `/sockets/bash-events?session_api_key=${readOnly}&sandbox_id=${sandbox.id}&resend_mode=all`,
  );
  await reader.frame(({ kind }) => kind === "BashCommand");
  reader.socket.send(JSON.stringify({ command: "true" }));
  expect(await reader.frame(({ kind }) => kind === "ServerErrorEvent")).toMatchObject({
    code: "ReadOnlyKey",
  });

  const event = await execute("echo mine");
  const as = (key: string) => ({ "X-Session-API-Key": key });
  const path = `/api/bash/bash_events/${event.id}`;
  expect((await server.call("GET", path, undefined, as(sandbox.session_api_key))).status).toBe(200);
  expect((await server.call("GET", path, undefined, as(other.session_api_key))).status).toBe(404);
  expect(
    (await server.call("GET", `${path}?sandbox_id=${sandbox.id}`, undefined, as(other.session_api_key)))
      .status,
  ).toBe(404);
  expect((await server.call("GET", `${path}?sandbox_id=${sandbox.id}`, undefined, as(stranger))).status).toBe(
    404,
  );
  const start = (key: string) =>
    server.call(
      "POST",
      `/api/bash/start_bash_command?sandbox_id=${sandbox.id}`,
      { command: "true" },
      as(key),
    );
  expect([(await start(stranger)).status, (await start(readOnly)).status, (await start("x")).status]).toEqual(
    [404, 403, 401],
  );
  await server.call("DELETE", `/api/v1/sandboxes/${other.id}?sandbox_id=${other.id}`);
});
