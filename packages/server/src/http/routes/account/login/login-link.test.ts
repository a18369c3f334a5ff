import { afterAll, beforeAll, expect, test } from "vitest";
import { makeLoginRequests, ownPage } from "../../../../../test/support/login-requests.ts";
import { key, read, startServer, type TestServer } from "../../../../../test/support/test-server.ts";

let server: TestServer;
beforeAll(async () => {
  server = await startServer();
});
afterAll(() => server.close());

const { call, form } = makeLoginRequests(() => server);

test("a link logs in once, as its user, and then says so", async () => {
  const holder = (await server.apiKeys.authenticate(key))!;
  const { loginLinks } = server;
  const link = await loginLinks.create(holder);
  const entered = await form(`link=${link}`, { ...ownPage, origin: server.url });
  expect([entered.status, entered.headers.get("location")]).toEqual([303, "./"]);
  const cookie = entered.headers.getSetCookie()[0]!.split(";")[0]!;
  expect((await call("GET", "/api/keys", { cookie, ...ownPage })).status).toBe(200);
  const again = await form(`link=${link}`, { ...ownPage, origin: server.url });
  expect(again.status).toBe(401);
  expect(await again.text()).toMatch(/role="alert">This login link was used before or has expired/);
  const other = await loginLinks.create(holder);
  const answer = await read(call("POST", "/login", {}, { link: other }));
  expect(answer).toMatchObject({ status: 200, body: { user: null, read_only: false } });
  expect((await read(call("POST", "/login", {}, { link: other }))).body.detail).toMatch(/^This login link/);
  // Another site cannot use one up, and a link is neither a login nor a key.
  const third = await loginLinks.create(holder);
  const foreign = { "sec-fetch-site": "cross-site" };
  expect((await call("POST", "/login", foreign, { link: third })).status).toBe(403);
  for (const text of [third, `link:${third}`])
    expect((await call("GET", "/api/keys", { cookie: `sandpiper_login=${text}`, ...ownPage })).status).toBe(
      401,
    );
  expect((await server.call("GET", "/api/keys", { key: third })).status).toBe(401);
  expect((await call("POST", "/login", {}, { link: third })).status).toBe(200);
  for (const body of [{ link: 1 }, { link: "x".repeat(200) }])
    expect((await call("POST", "/login", {}, body)).status).toBe(422);
  expect(JSON.stringify(server.logs)).not.toContain(third);
});
