import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  isFullState,
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../../test/support/test-server.ts";

let server: TestServer;
let own: { id: string; sessionKey: string };
let other: { id: string; sessionKey: string };
let conversation: string;

beforeAll(async () => {
  server = await startServer();
  own = server.addSandbox();
  other = server.addSandbox();
  conversation = await server.addConversation(undefined, own.id);
});
afterAll(() => server.close());

const status = async (path: string, caller: string | null) =>
  (await read(server.call("GET", path, { key: caller }))).status;

test("below /agent/<sandbox id> its own session key and its user's key open the surface, and nothing else does", async () => {
  const path = (sandbox: string) => `/agent/${sandbox}/api/conversations/${conversation}`;
  expect(await status(path(own.id), own.sessionKey)).toBe(200);
  expect(await status(path(own.id), key)).toBe(200);
  expect(await status(path(own.id), other.sessionKey)).toBe(401);
  expect(await status(path(own.id), strangerKey)).toBe(404);
  expect(await status(path(own.id), null)).toBe(401);
  expect(await status(path(other.id), key)).toBe(404);
  expect(await status(path("sbx-none"), key)).toBe(404);
  expect(await status(path("sbx-none"), own.sessionKey)).toBe(401);
});

test("the platform's own routes are not below a sandbox", async () => {
  expect(await status(`/agent/${own.id}/api/v1/sandboxes/search`, key)).toBe(401);
  expect(await status(`/agent/${own.id}/api/v1/sandboxes/search`, own.sessionKey)).toBe(401);
  expect(await status("/api/v1/sandboxes/search", key)).toBe(200);
});

test("invalid prefixes are unknown paths", async () => {
  expect(await status("/agent", key)).toBe(404);
  expect(await status(`/agents/${own.id}/health`, key)).toBe(404);
  expect(await status(`/agent/${own.id}/agent/${own.id}/api/conversations/${conversation}`, key)).toBe(404);
  expect(await status(`/agent/${own.id}/health?x=1`, null)).toBe(200);
});

test("below a sandbox and for its session key, the OpenAPI document is the agent server's", async () => {
  const title = async (path: string, caller: string | null) =>
    (await read(server.call("GET", path, { key: caller }))).body.info.title;
  expect(await title(`/agent/${own.id}/openapi.json`, null)).toBe("Sandpiper agent server");
  expect(await title("/openapi.json", own.sessionKey)).toBe("Sandpiper agent server");
  expect(await title("/openapi.json", key)).toBe("Sandpiper");
});

test("sockets open below the prefix and at the root", async () => {
  for (const [path, caller] of [
    [`/agent/${own.id}/sockets/events/${conversation}`, own.sessionKey],
    [`/agent/${own.id}/sockets/events/${conversation}`, key],
    [`/sockets/events/${conversation}`, own.sessionKey],
  ]) {
    const socket = new TestSocket(server, path!, { "x-session-api-key": caller! });
    await socket.until(isFullState);
    socket.socket.terminate();
  }
  const byFrame = new TestSocket(server, `/agent/${own.id}/sockets/events/${conversation}`);
  await once(byFrame.socket, "open");
  byFrame.send({ type: "auth", session_api_key: other.sessionKey });
  expect((await byFrame.closed).code).toBe(4001);
});
