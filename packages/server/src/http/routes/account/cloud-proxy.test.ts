import { afterAll, beforeAll, expect, test } from "vitest";
import {
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
} from "../../../../test/support/test-server.ts";
import { defaultUser } from "../../../users/default-user.ts";

let server: TestServer;
let id: string;
let session: string;
beforeAll(async () => {
  server = await startServer();
  const sandbox = server.addSandbox();
  session = sandbox.sessionKey;
  id = await server.addConversation(defaultUser, sandbox.id);
  await server.addMessages(id, "one", "two");
});
afterAll(() => server.close());

const proxy = (body: object, from?: string | null) =>
  read(server.call("POST", "/api/cloud-proxy", { body, ...(from !== undefined && { key: from }) }));
const request = (path: string, change: object = {}) => ({
  host: `${server.url}/`,
  method: "GET",
  path,
  headers: { "X-Session-API-Key": session },
  body: null,
  ...change,
});

test("a proxied request gets the agent server's own response", async () => {
  expect(await proxy(request(`/api/conversations/${id}/events/count`))).toEqual({ status: 200, body: 2 });
  const query = `/api/conversations/${id}/events/search?limit=1`;
  expect(await proxy(request(query))).toEqual(await read(server.call("GET", query, { key: session })));
  const lower = { "x-session-api-key": session, "content-type": "text/plain", "x-org-id": "1" };
  const answer = request(`/api/conversations/${id}/events`, {
    method: "POST",
    headers: lower,
    body: { content: [{ type: "text", text: "three" }] },
  });
  expect(await proxy(answer)).toEqual({ status: 200, body: { success: true } });
  expect((await proxy(request(`/api/conversations/${id}/events/count`))).body).toBe(3);
  expect(await proxy({ ...answer, body: { content: 7 } })).toMatchObject({
    status: 422,
    body: { detail: [{}] },
  });
  expect(await proxy(request("/api/git/none"))).toMatchObject({ status: 404 });
});

test("the proxy grants only what the request's credentials grant", async () => {
  const path = `/api/conversations/${id}/events/count`;
  for (const headers of [
    {},
    null,
    { "X-Session-API-Key": "wrong\r\nx: y" },
    { cookie: `sandpiper_session=${key}` },
    { "X-Session-API-Key": 1 },
  ]) {
    expect([headers, (await proxy(request(path, { headers }))).status]).toEqual([
      headers,
      expect.toSatisfy((s) => s === 401 || s === 422),
    ]);
  }
  expect((await proxy(request(path, { headers: { Authorization: `Bearer ${strangerKey}` } }))).status).toBe(
    404,
  );
  for (const from of [null, session]) expect((await proxy(request(path), from)).status).toBe(401);
});

test("the proxy reaches no other host and no other route", async () => {
  const path = `/api/conversations/${id}/events/count`;
  const hosts = [
    "http://127.0.0.1:1",
    "https://example.com",
    server.url.replace("http", "https"),
    "",
    "x",
    `${server.url}@example.com`,
    "file:///etc",
  ];
  for (const host of hosts)
    expect([host, (await proxy(request(path, { host }))).status]).toEqual([host, 422]);
  const paths = [
    "/api/cloud-proxy",
    "/api/conversations/../cloud-proxy",
    "/api/git/%2e%2e/keys",
    `/api/conversations/${id}/trajectory`,
    `/api/conversations/${id}/%74rajectory/?x`,
    "/api/git/..\\keys",
    "/api/settings",
    "//example.com/api/git/",
    "https://example.com/api/git/changes",
    "api/git",
    "",
  ];
  const headers = { Authorization: `Bearer ${key}` };
  for (const one of paths) expect([one, (await proxy(request(one, { headers }))).status]).toEqual([one, 422]);
  expect((await proxy(request(path, { method: "CONNECT" }))).status).toBe(422);
});
