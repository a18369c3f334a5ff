import { once } from "node:events";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeLoginRequests, ownPage } from "../../../../../test/support/login-requests.ts";
import { echo, PreviewBench } from "../../../../../test/support/preview.ts";
import {
  isFullState,
  key,
  read,
  startServer,
  strangerKey,
  type TestServer,
  TestSocket,
} from "../../../../../test/support/test-server.ts";

let server: TestServer;
let readerKey: string;
beforeAll(async () => {
  server = await startServer();
  server.sandboxes.add();
  ({ key: readerKey } = await server.apiKeys.add("default", {
    name: "reader",
    expiresAt: null,
    readOnly: true,
  }));
});
afterAll(() => server.close());

const { call, form } = makeLoginRequests(() => server);

/** Logs in and returns the Cookie header. */
async function logIn(with_ = key): Promise<string> {
  const answer = await call("POST", "/login", {}, { key: with_ });
  expect(answer.status).toBe(200);
  return answer.headers.getSetCookie()[0]!.split(";")[0]!;
}

test("a program gets a cookie for a key: random, HttpOnly, SameSite=Strict, and Secure only over https", async () => {
  const answer = await call("POST", "/login", {}, { key });
  expect(await answer.json()).toEqual({ user: null, read_only: false, expires_at: expect.any(String) });
  const [cookie] = answer.headers.getSetCookie();
  expect(cookie).toMatch(/^sandpiper_login=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=2\d{6}$/);
  expect(cookie).not.toContain(key);
  const other = await read(call("POST", "/login", {}, { key: strangerKey }));
  expect(other.body.user).toBe("stranger");

  const secure = await startServer({ publicUrl: "https://sandpiper.example/base" });
  const at = (path: string, init: RequestInit) => fetch(`http://127.0.0.1:${secure.port}${path}`, init);
  const safe = await at("/login", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ key }),
  });
  const [secureCookie] = safe.headers.getSetCookie();
  expect(secureCookie).toMatch(
    /^__Host-sandpiper_login=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; .*; Secure$/,
  );
  const headers = { cookie: secureCookie!.split(";")[0]!, origin: "https://sandpiper.example" };
  expect((await at("/api/keys", { headers })).status).toBe(200);
  // A neighbouring host can set the plain name, and would log the visitor into its own account.
  const planted = headers.cookie.replace("__Host-", "");
  expect((await at("/api/keys", { headers: { ...headers, cookie: planted } })).status).toBe(401);
  expect(await (await at("/login", { headers: { cookie: planted } })).text()).toContain("<form");
  const socket = new TestSocket({ url: `http://127.0.0.1:${secure.port}` }, "/sockets/events/x", {
    ...headers,
    cookie: planted,
  });
  await once(socket.socket, "open");
  socket.send({ role: "user", content: [] });
  expect((await socket.closed).code).toBe(4001);
  await secure.close();
});

test("only a trusted proxy's https makes the cookie Secure, and its plain name void", async () => {
  const forwarded = { "x-forwarded-proto": "https" };
  expect((await call("POST", "/login", forwarded, { key })).headers.getSetCookie()[0]).not.toContain(
    "Secure",
  );
  const behind = await startServer({ trustedProxies: ["127.0.0.1/32"] });
  const answer = await behind.call("POST", "/login", { key: null, headers: forwarded, body: { key } });
  const [cookie] = answer.headers.getSetCookie();
  expect(cookie).toMatch(/^__Host-.*Secure$/);
  const plain = cookie!.split(";")[0]!.replace("__Host-", "");
  const ask = (headers: Record<string, string>) => behind.call("GET", "/api/keys", { key: null, headers });
  expect((await ask({ cookie: `__Host-${plain}`, ...forwarded })).status).toBe(200);
  expect((await ask({ cookie: plain, ...forwarded })).status).toBe(401);
  expect((await ask({ cookie: plain })).status).toBe(200);
  await behind.close();
});

test("the page loads nothing, has one known script, and its form logs a browser in and out", async () => {
  const page = await call("GET", "/login");
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.headers.get("content-security-policy")).toMatch(
    /^default-src 'none'; script-src 'sha256-[\w+/=]+'; style-src 'sha256-[\w+/=]+'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$/,
  );
  expect(page.headers.get("cache-control")).toBe("no-store");
  const html = await page.text();
  expect(html).toMatch(/<form method="post" action="login">.*type="password"/);
  expect(html).not.toMatch(/<script .*|src=|https?:/);
  expect(html.split("<script>")).toHaveLength(2);
  const start = await call("GET", "/", { accept: "text/html" });
  expect(start.headers.get("content-security-policy")).not.toContain("script-src");

  const entered = await form(`key=${key}`, { ...ownPage, origin: server.url });
  expect([entered.status, entered.headers.get("location")]).toEqual([303, "./"]);
  const cookie = entered.headers.getSetCookie()[0]!.split(";")[0]!;
  const welcome = await (await call("GET", "/login", { cookie })).text();
  expect(welcome).toMatch(/logged in as default\..*action="logout"/);
  expect((await call("GET", "/api/keys", { cookie, ...ownPage })).status).toBe(200);

  const left = await fetch(`${server.url}/logout`, {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": "application/x-www-form-urlencoded", cookie, ...ownPage },
  });
  expect([left.status, left.headers.get("location")]).toEqual([303, "./"]);
  expect(left.headers.getSetCookie().every((text) => text.includes("Max-Age=0"))).toBe(true);
  expect((await call("GET", "/api/keys", { cookie, ...ownPage })).status).toBe(401);
});

test("a browser without a login gets the login on a page for people, and then that page", async () => {
  const page = `/behaviours/${"0".repeat(64)}`;
  const asBrowser = { redirect: "manual", headers: { accept: "text/html" } } as const;
  const sent = await fetch(`${server.url}${page}?a=1`, asBrowser);
  expect(sent.status).toBe(303);
  const login = new URL(sent.headers.get("location")!, `${server.url}${page}`);
  expect(login.pathname).toBe("/login");
  const html = await (await fetch(login)).text();
  expect(html).toContain(`name="next" value="${page}?a=1"`);

  const next = encodeURIComponent(`${page}?a=1`);
  expect(await (await form(`key=wrong&next=${next}`)).text()).toContain(`value="${page}?a=1"`);
  const entered = await form(`key=${key}&next=${next}`, { ...ownPage, origin: server.url });
  expect([entered.status, entered.headers.get("location")]).toEqual([303, `.${page}?a=1`]);
  const cookie = entered.headers.getSetCookie()[0]!.split(";")[0]!;
  expect(await (await call("GET", `/login?next=${next}`, { cookie })).text()).toContain(
    `href=".${page}?a=1"`,
  );
  // Programs, and pages that are none, are answered as before.
  expect((await call("GET", page)).status).toBe(401);
  expect((await call("GET", "/api/keys", { accept: "text/html" })).status).toBe(401);
});

test.each([
  "//evil.example/",
  "/\\evil.example/",
  "https://evil.example/",
  "javascript:alert(1)",
  "/a\r\nset-cookie: x=y",
  "/\u00e9",
  'relative"><script>',
])("a login never leads to %j", async (text) => {
  const next = encodeURIComponent(text);
  const entered = await form(`key=${key}&next=${next}`, ownPage);
  expect([entered.status, entered.headers.get("location")]).toEqual([303, "./"]);
  expect(await (await call("GET", `/login?next=${next}`)).text()).not.toMatch(/name="next"|"><script/);
});

test("the start page tells a person what runs here and where to log in; programs get 404 as before", async () => {
  const page = await call("GET", "/", { accept: "text/html,application/xhtml+xml,*/*;q=0.8" });
  expect([page.status, page.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  expect(page.headers.get("content-security-policy")).toMatch(/^default-src 'none'/);
  const html = await page.text();
  expect(html).toMatch(/<html lang="en">.*<title>Sandpiper<\/title>.*<main><h1>Sandpiper<\/h1>/);
  expect(html).toMatch(
    /Sandpiper \d+\.\d+\.\d+.*<a href="login">Log in<\/a>.*<a href="docs">.*docs\/README\.md/,
  );
  const cookie = await logIn(readerKey);
  const known = await (await call("GET", "/", { accept: "text/html", cookie, ...ownPage })).text();
  expect(known).toMatch(/logged in as default\. The key is read-only\..*action="logout"/);
  for (const accept of ["*/*", "application/json"]) {
    const answer = await read(call("GET", "/", { accept }));
    expect(answer).toEqual({ status: 404, body: { detail: "Not Found" } });
  }
  const session = { key: server.sessionKey("sandbox-1"), headers: { accept: "text/html" } };
  expect((await read(server.call("GET", "/", session))).body.title).toBe("Sandpiper");
});

test("a wrong key is answered with the page and a reason, or with JSON", async () => {
  const wrong = await form("key=%3Cb%3Enone");
  expect(wrong.status).toBe(401);
  expect(await wrong.text()).toMatch(/role="alert">This key is unknown, revoked or expired/);
  expect((await read(call("POST", "/login", {}, { key: "none" }))).body.detail).toMatch(
    /^This key is unknown/,
  );
  for (const body of [{}, { key: 1 }, { key: "x".repeat(2000) }])
    expect((await call("POST", "/login", {}, body)).status).toBe(422);
  expect((await form("other=1")).status).toBe(422);
  expect((await call("POST", "/login", { "content-type": "text/plain" }, "key")).status).toBe(415);
});

test("the cookie opens the API for the server's own pages, and for no other", async () => {
  const cookie = await logIn();
  const keysList = (method: string, headers: Record<string, string>) =>
    call(
      method,
      "/api/keys",
      { cookie, ...headers },
      method === "POST" ? { name: `made ${crypto.randomUUID()}` } : undefined,
    );
  const port = new URL(server.url).port;
  const cases: [string, Record<string, string>, number][] = [
    ["GET", {}, 200],
    ["GET", ownPage, 200],
    ["GET", { "sec-fetch-site": "none" }, 200],
    ["GET", { origin: server.url }, 200],
    ["POST", ownPage, 201],
    // Behind a development proxy, the browser's own header counts.
    ["POST", { ...ownPage, origin: "http://localhost:5173" }, 201],
    ["POST", { "sec-fetch-site": "none" }, 201],
    ["POST", { origin: server.url }, 201],
    ["POST", {}, 403],
    ["POST", { "sec-fetch-site": "same-site", origin: server.url }, 403],
    ["POST", { "sec-fetch-site": "cross-site" }, 403],
    ["POST", { origin: "null" }, 403],
    ["POST", { origin: `http://8000-sandbox.localhost:${port}` }, 403],
    ["POST", { origin: "https://gui.example" }, 403],
    ["POST", { origin: `http://127.0.0.1:${Number(port) + 1}` }, 403],
    ["GET", { "sec-fetch-site": "same-site" }, 403],
    ["GET", { "sec-fetch-site": "cross-site" }, 403],
    ["GET", { origin: "http://localhost:5173" }, 403],
    ["GET", { origin: "//" }, 403],
  ];
  for (const [method, headers, status] of cases) {
    expect([method, headers, (await keysList(method, headers)).status]).toEqual([method, headers, status]);
  }
  expect((await read(keysList("POST", {}))).body.detail).toMatch(
    /^The login counts only for pages of this server/,
  );
});

test("another site's page can neither log in nor out; a key in a header overrides the cookie", async () => {
  const cookie = await logIn();
  const foreign: Record<string, string>[] = [
    { "sec-fetch-site": "cross-site" },
    { origin: "https://evil.example" },
    { origin: "null" },
  ];
  for (const path of ["/login", "/logout"]) {
    for (const headers of foreign) {
      expect((await call("POST", path, { cookie, ...headers }, { key })).status).toBe(403);
    }
  }
  expect((await call("GET", "/api/keys", { cookie, ...ownPage })).status).toBe(200);
  expect((await call("GET", "/api/keys", { cookie, ...ownPage, "x-session-api-key": "wrong" })).status).toBe(
    401,
  );
  expect(
    (await call("POST", "/api/keys", { cookie, "x-session-api-key": key }, { name: "by header" })).status,
  ).toBe(201);
});

test("a login is not a key, and ends with its key or with a new login of the browser", async () => {
  const { key: short, row } = await server.apiKeys.add("default", {
    name: "short",
    expiresAt: null,
    readOnly: false,
  });
  const cookie = await logIn(short);
  const token = cookie.split("=")[1]!;
  expect((await call("GET", "/api/keys", { authorization: `Bearer ${token}` })).status).toBe(401);
  expect((await call("GET", "/api/keys", { cookie: `sandpiper_login=${short}` })).status).toBe(401);
  expect((await call("GET", "/api/keys", { cookie: `a=b; ${cookie}; sandpiper_login=` })).status).toBe(200);
  await call("POST", "/login", { cookie }, { key });
  expect((await call("GET", "/api/keys", { cookie })).status).toBe(401);
  const again = await logIn(short);
  expect((await server.call("DELETE", `/api/keys/${row.id}`)).status).toBe(200);
  expect((await call("GET", "/api/keys", { cookie: again })).status).toBe(401);
  for (const hostile of [
    "sandpiper_login",
    "sandpiper_login=;;=",
    `sandpiper_login=${"x".repeat(3000)}`,
    "sandpiper_login=\u00ff",
  ]) {
    expect((await call("GET", "/api/keys", { cookie: hostile })).status).toBe(401);
  }
});

test("the cookie opens sockets only for the server's own pages; other pages need a key", async () => {
  const id = await server.addConversation();
  const cookie = await logIn();
  const socket = (headers: Record<string, string>) =>
    new TestSocket(server, `/sockets/events/${id}`, { cookie, ...headers });
  const mine = socket({ origin: server.url });
  await mine.until(isFullState);
  mine.send({ role: "user", content: [{ type: "text", text: "hello" }] });
  await mine.until((frame) => frame.kind === "MessageEvent");
  mine.socket.close();
  for (const headers of [
    {},
    { origin: "https://evil.example" },
    { origin: "null" },
    { "sec-fetch-site": "same-site" },
  ]) {
    const other = socket(headers as Record<string, string>);
    await once(other.socket, "open");
    other.send({ role: "user", content: [{ type: "text", text: "by another site" }] });
    expect(await other.closed).toEqual({ code: 4001, reason: "Authentication failed" });
    expect(other.frames).toEqual([]);
  }
  const keyed = socket({ origin: "http://localhost:8000" });
  await once(keyed.socket, "open");
  keyed.send({ type: "auth", session_api_key: key });
  await keyed.until(isFullState);
  expect((await server.events.search(id, { kind: "MessageEvent", limit: 10 })).items.join()).not.toContain(
    "by another site",
  );
  keyed.socket.close();
});

test("a read-only key logs in to read", async () => {
  const cookie = await logIn(readerKey);
  expect((await call("GET", "/api/keys", { cookie, ...ownPage })).status).toBe(200);
  expect((await call("POST", "/api/keys", { cookie, ...ownPage }, { name: "more" })).status).toBe(403);
});

test("wrong keys of an address are limited, with Retry-After, and never lock out the right ones", async () => {
  const fresh = await startServer();
  const attempt = (text: string) => fresh.call("POST", "/login", { key: null, body: { key: text } });
  for (let index = 0; index < 10; index++) expect((await attempt(`wrong ${index}`)).status).toBe(401);
  const limited = await attempt("wrong 10");
  expect(limited.status).toBe(429);
  expect(Number(limited.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
  expect(((await limited.json()) as { detail: string }).detail).toMatch(/^Too many wrong keys/);
  expect((await attempt(key)).status).toBe(200);
  expect((await attempt("wrong 11")).status).toBe(429);
  expect((await fresh.call("GET", "/api/keys")).status).toBe(200);
  await fresh.close();
});

test("neither keys nor login tokens reach the log", async () => {
  const cookie = await logIn();
  await call("POST", "/login", { cookie }, { key: "a-wrong-key-in-a-login" });
  const log = server.logs.join("");
  for (const secret of [key, cookie.split("=")[1]!, "a-wrong-key-in-a-login"])
    expect(log).not.toContain(secret);
});

test("an app in a sandbox can neither read nor set the login", async () => {
  const bench = await PreviewBench.start();
  await bench.app(8000, (request, response) => {
    response.setHeader("set-cookie", [
      "sandpiper_login=theirs; Path=/",
      "__Host-sandpiper_login=theirs; Path=/; Secure",
      "app=1",
    ]);
    return echo(request, response);
  });
  const { key: full } = await bench.server.apiKeys.add("default", {
    name: "browser",
    expiresAt: null,
    readOnly: false,
  });
  const { token } = await bench.server.logins.begin((await bench.server.apiKeys.authenticate(full))!);
  const cookie = `sandpiper_login=${token}; __Host-sandpiper_login=${token}; app=1; preview_app=2`;
  const session = await bench.session(8000);
  const byHost = await bench.call("/", {
    host: bench.host(8000),
    key: null,
    headers: { cookie: `${cookie}; ${session}` },
  });
  const byPath = await bench.call(await bench.pathSession(8000), { key: null, headers: { cookie } });
  for (const answer of [byHost, byPath]) {
    expect(answer.status).toBe(200);
    expect(answer.text).toMatch(/"cookie":"app=[12]/);
    expect(answer.text).not.toContain(token);
    expect(answer.headers["set-cookie"]!.join()).not.toContain("theirs");
  }
  // The login opens no previews: only their own links do.
  expect((await bench.call("/", { host: bench.host(8000), key: null, headers: { cookie } })).status).toBe(
    401,
  );
  await bench.close();
});
