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
let conversation: string;
let readerKey: string;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  conversation = await server.addConversation();
  const made = await read(server.call("POST", "/api/keys", { body: { name: "reader", read_only: true } }));
  readerKey = made.body.key;
});
afterAll(() => server.close());

test("a user creates, lists and revokes keys; the key is shown once", async () => {
  const made = await server.call("POST", "/api/keys", { body: { name: "laptop" } });
  expect([made.status, made.headers.get("cache-control")]).toEqual([201, "no-store"]);
  const body = (await made.json()) as any;
  expect(body).toEqual({
    id: expect.any(String),
    name: "laptop",
    key: expect.stringMatching(/^sp_/),
    created_at: expect.any(String),
    expires_at: null,
    last_used_at: null,
    read_only: false,
  });
  expect((await server.call("GET", "/api/keys", { key: body.key })).status).toBe(200);
  const list = await read(server.call("GET", "/api/keys"));
  expect(list.body.map(({ name }: any) => name)).toEqual(["first", "reader", "laptop"]);
  expect(JSON.stringify(list.body)).not.toContain(body.key);
  expect((await server.call("POST", "/api/keys", { body: { name: "laptop" } })).status).toBe(409);
  expect((await server.call("DELETE", `/api/keys/${body.id}`)).status).toBe(200);
  expect((await server.call("DELETE", `/api/keys/${body.id}`)).status).toBe(404);
  expect((await server.call("GET", "/api/keys", { key: body.key })).status).toBe(401);
});

test("another user's keys are unknown", async () => {
  const [first] = (await read(server.call("GET", "/api/keys"))).body;
  expect((await read(server.call("GET", "/api/keys", { key: strangerKey }))).body).toHaveLength(1);
  const theirs = await read(server.call("DELETE", `/api/keys/${first.id}`, { key: strangerKey }));
  expect(theirs).toEqual(await read(server.call("DELETE", "/api/keys/nothing", { key: strangerKey })));
  expect(theirs.status).toBe(404);
  expect((await server.call("GET", "/api/keys")).status).toBe(200);
});

test("an invalid expiry is reported as a field of the body", async () => {
  const { status, body } = await read(
    server.call("POST", "/api/keys", { body: { name: "x", expires_at: "soon" } }),
  );
  expect([status, body.detail[0].loc]).toEqual([422, ["body", "expires_at"]]);
});

test("a key cannot create a key with a later expiry", async () => {
  const soon = new Date(Date.now() + 3_600_000).toISOString();
  const later = new Date(Date.now() + 7_200_000).toISOString();
  const short = (await read(server.call("POST", "/api/keys", { body: { name: "short", expires_at: soon } })))
    .body;
  expect(Date.parse(short.expires_at)).toBe(Date.parse(soon));
  const make = (body: object) => read(server.call("POST", "/api/keys", { key: short.key, body }));
  expect((await make({ name: "child" })).body.expires_at).toBe(short.expires_at);
  expect((await make({ name: "longer", expires_at: later })).body.detail).toMatch(
    /^A new key may not expire after the key that creates it/,
  );
  expect((await make({ name: "past", expires_at: "2020-01-01T00:00:00Z" })).body.detail).toMatch(/past/);
});

test("invalid bodies are rejected", async () => {
  const bodies = [
    {},
    { name: "" },
    { name: " " },
    { name: "x".repeat(101) },
    { name: "a\nb" },
    { name: "x", expires_at: "soon" },
    { name: 1 },
  ];
  for (const body of bodies)
    expect([body, (await server.call("POST", "/api/keys", { body })).status]).toEqual([body, 422]);
  expect((await server.call("POST", "/api/keys", { body: { name: "x", read_only: "no" } })).status).toBe(422);
});

test("a read-only key only reads, and sees no session keys or links", async () => {
  const document = (await read(server.call("GET", "/openapi.json"))).body;
  const changing = Object.entries<any>(document.paths).flatMap(([path, methods]) =>
    Object.entries<any>(methods)
      .filter(([method, { security }]) => !["get", "head"].includes(method) && security?.length !== 0)
      .map(([method]) => ({ method: method.toUpperCase(), path: path.replaceAll(/\{\w+\}/g, conversation) })),
  );
  expect(changing.length).toBeGreaterThan(15);
  for (const { method, path } of changing) {
    const { status, body } = await read(server.call(method, path, { key: readerKey, body: {} }));
    const detail = body.detail ?? body.error?.message;
    expect([method, path, status, detail]).toEqual([
      method,
      path,
      403,
      expect.stringMatching(/^This key is read-only/),
    ]);
  }
  const sandbox = (await read(server.call("GET", "/api/v1/sandboxes/search", { key: readerKey }))).body
    .items[0];
  expect(sandbox).toMatchObject({
    id: "sandbox-1",
    status: "RUNNING",
    session_api_key: null,
    exposed_urls: null,
  });
  for (const path of [
    `/api/v1/app-conversations?ids=${conversation}`,
    "/api/v1/app-conversations/search",
    "/api/conversations?limit=10",
    `/api/conversations/${conversation}`,
  ]) {
    const full = await (await server.call("GET", path)).text();
    const shown = await (await server.call("GET", path, { key: readerKey })).text();
    if (full.includes("session_api_key")) expect(full).toContain(server.sessionKey("sandbox-1"));
    expect([path, shown.includes(server.sessionKey("sandbox-1"))]).toEqual([path, false]);
  }
  expect(
    (await server.call("GET", "/api/v1/sandboxes/sandbox-1/preview?port=80", { key: readerKey })).status,
  ).toBe(403);
  expect((await server.call("GET", "/preview/sandbox-1/80/", { key: readerKey })).status).toBe(403);
});

test("a read-only key follows a socket and sends nothing over it", async () => {
  for (const [query, first] of [
    [`?session_api_key=${readerKey}`],
    ["", { type: "auth", session_api_key: readerKey }],
  ] as const) {
    const socket = new TestSocket(server, `/sockets/events/${conversation}${query}`);
    if (first) socket.socket.once("open", () => socket.send(first));
    await socket.until(isFullState);
    socket.send({ role: "user", content: [{ type: "text", text: "do something" }] });
    const refusal = await socket.until((frame) => frame.kind === "ServerErrorEvent");
    expect(refusal).toMatchObject({
      code: "ReadOnlyKey",
      detail: "This key is read-only: the socket only follows.",
    });
    await server.addMessages(conversation, "from elsewhere");
    await socket.until((frame) => frame.kind === "MessageEvent");
    expect(socket.texts()).toEqual(["from elsewhere"]);
    socket.socket.terminate();
  }
});

test("an open socket sends nothing more once its key is revoked", async () => {
  const { key: short, row } = await server.apiKeys.add("default", {
    name: "short-lived",
    expiresAt: null,
    readOnly: false,
  });
  const socket = new TestSocket(server, `/sockets/events/${conversation}`, { "x-session-api-key": short });
  await socket.until(isFullState);
  await server.call("DELETE", `/api/keys/${row.id}`);
  socket.send({ role: "user", content: [{ type: "text", text: "too late" }] });
  expect(await socket.closed).toMatchObject({ code: 4001 });
  const { body } = await read(
    server.call("GET", `/api/v1/conversation/${conversation}/events/search`, { key }),
  );
  expect(JSON.stringify(body)).not.toContain("too late");
});
