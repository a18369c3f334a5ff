import { afterAll, beforeAll, expect, test } from "vitest";
import { key, read, startServer, strangerKey, type TestServer } from "../../../test/support/test-server.ts";

let server: TestServer;
let conversation: string;
let elsewhere: string;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  server.sandboxes.add();
  conversation = await server.addConversation();
  elsewhere = await server.addConversation("default", "sandbox-2");
});
afterAll(() => server.close());

test("health routes and documents need no key", async () => {
  for (const path of [
    "/alive",
    "/health",
    "/ready",
    "/server_info",
    "/openapi.json",
    "/docs",
    "/docs/json",
  ]) {
    expect([path, (await server.call("GET", path, { key: null })).status]).toEqual([path, 200]);
  }
  expect(await read(server.call("GET", "/alive", { key: null }))).toEqual({
    status: 200,
    body: { status: "ok" },
  });
  expect((await read(server.call("GET", "/health", { key: null }))).body).toBe("OK");
  expect((await read(server.call("GET", "/ready", { key: null }))).body).toBe("OK");
});

const publicPaths = [
  ...["/alive", "/health", "/ready", "/server_info", "/login", "/logout"],
  // Needs its own token.
  "/api/v1/webhooks/secrets",
  // The GUI's first request.
  "/api/v1/web-client/config",
  "/api/options/config",
];

test("every other route, known or not, responds with 401 without a valid key", async () => {
  const document = (await read(server.call("GET", "/openapi.json", { key: null }))).body;
  const operations = Object.entries<Record<string, { security?: unknown[] }>>(document.paths).flatMap(
    ([path, methods]) =>
      Object.entries(methods).map(([method, { security }]) => ({
        method: method.toUpperCase(),
        path,
        open: security?.length === 0,
      })),
  );
  expect(operations.filter(({ open }) => open).map(({ path }) => path)).toEqual(
    expect.arrayContaining(["/health", "/login"]),
  );
  for (const { path } of operations.filter(({ open }) => open)) expect(publicPaths).toContain(path);
  const routes = operations.filter(({ open }) => !open);
  expect(routes.length).toBeGreaterThan(25);
  const unknown = ["/api", "/api/nothing", "/%61pi/nothing", "/api/v1/sandboxes/x/y/z"].map((path) => ({
    method: "GET",
    path,
  }));
  for (const { method, path } of [...routes, ...unknown]) {
    for (const wrong of [null, "wrong"]) {
      const answer = await server.call(method, path.replaceAll(/\{\w+\}/g, conversation), { key: wrong });
      expect({ method, path, status: answer.status }).toEqual({ method, path, status: 401 });
      for (const text of Object.values(
        method === "HEAD" ? {} : ((await answer.json()) as Record<string, any>),
      ))
        expect([path, text.message ?? text]).toEqual([path, "Unauthorized"]);
    }
  }
});

test("a key is taken from X-Session-API-Key and from Authorization: Bearer", async () => {
  expect((await server.call("GET", "/api/keys")).status).toBe(200);
  const bearer = (text: string) =>
    server.call("GET", "/api/keys", { key: null, headers: { authorization: text } });
  expect((await bearer(`Bearer ${key}`)).status).toBe(200);
  expect((await bearer(`bearer ${key}`)).status).toBe(200);
  expect((await bearer(`Basic ${key}`)).status).toBe(401);
  const both = await server.call("GET", "/api/keys", {
    key: server.sessionKey("sandbox-1"),
    headers: { authorization: `Bearer ${key}` },
  });
  expect(both.status).toBe(200);
});

test("no cache keeps a response of a documented route", async () => {
  const document = (await read(server.call("GET", "/openapi.json"))).body;
  const kept: string[] = [];
  for (const [path, methods] of Object.entries<any>(document.paths)) {
    const url = path.replaceAll(/\{\w+\}/g, conversation);
    for (const caller of "get" in methods ? [key, null] : []) {
      const answer = await server.call("GET", url, { key: caller });
      if (answer.headers.get("cache-control") !== "no-store") kept.push(path);
      await answer.body?.cancel();
    }
  }
  expect(kept).toEqual([]);
  const docs = await server.call("GET", "/docs/static/index.html", { key: null });
  expect(docs.headers.get("cache-control")).not.toBe("no-store");
});

test("a sandbox's session key opens the conversations of that sandbox and nothing else", async () => {
  const session = { key: server.sessionKey("sandbox-1") };
  const get = async (path: string) => (await server.call("GET", path, session)).status;
  expect(await get(`/api/conversations/${conversation}`)).toBe(200);
  expect(await get(`/api/conversations/${conversation}/events/search`)).toBe(200);
  expect(await get(`/api/conversations/${elsewhere}`)).toBe(404);
  expect((await server.call("POST", `/api/conversations/${elsewhere}/pause`, session)).status).toBe(404);
  for (const path of [
    "/api/keys",
    "/api/v1/sandboxes/search",
    `/api/v1/conversation/${conversation}/events/search`,
  ]) {
    expect([path, await get(path)]).toEqual([path, 401]);
  }
});

test("another user's conversations are unknown", async () => {
  for (const path of [
    `/api/conversations/${conversation}`,
    `/api/v1/conversation/${conversation}/events/search`,
    `/api/v1/conversation/${conversation}/events/count`,
    `/api/v1/events/count?conversation_id__eq=${conversation}`,
  ]) {
    const { status, body } = await read(server.call("GET", path, { key: strangerKey }));
    expect([path, status, body]).toEqual([
      path,
      404,
      expect.objectContaining({ detail: "Conversation not found" }),
    ]);
  }
  expect(
    (await server.call("DELETE", `/api/v1/app-conversations/${conversation}`, { key: strangerKey })).status,
  ).toBe(404);
});

test("keys never reach the log", async () => {
  await server.call("GET", `/api/nothing?session_api_key=${key}&limit=1`);
  await server.call("GET", `/api/nothing?session%5Fapi%5Fkey=${key}`);
  await server.call("GET", "/api/settings", {
    key: "a-wrong-key",
    headers: { authorization: `Bearer ${strangerKey}` },
  });
  const log = server.logs.join("");
  expect(log).toContain("/api/nothing?session_api_key=***&limit=1");
  for (const secret of [key, strangerKey, "a-wrong-key", server.sessionKey("sandbox-1")])
    expect(log).not.toContain(secret);
});
