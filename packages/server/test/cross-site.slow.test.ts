import { once } from "node:events";
import { request } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { key, read, startServer, type TestServer } from "./support/test-server.ts";

/**
 * Pages of other origins in a browser with a login: none changes anything, and none opens a socket.
 * A page that has a key, such as a GUI on another address, works.
 */
let server: TestServer;
let conversation: string;
let port: number;
beforeAll(async () => {
  server = await startServer({ maxRequests: 0 });
  server.sandboxes.add();
  conversation = await server.addConversation();
  port = server.port;
});
afterAll(() => server.close());

type Headers = Record<string, string>;

/** The headers of requests from foreign pages, by the kind of page. */
const foreign = (own: string): Headers[] => {
  const { host, port, hostname } = new URL(own);
  const origins = [
    "null",
    "",
    "https://evil.example",
    "http://evil.example",
    // Another scheme, port, or name of the same machine.
    `ws://${host}`,
    `ftp://${host}`,
    `http://${hostname}`,
    `http://${hostname}:${Number(port) + 1}`,
    `http://localhost:${port}`,
    `http://[::1]:${port}`,
    `http://[::ffff:127.0.0.1]:${port}`,
    `http://0.0.0.0:${port}`,
    `http://127.0.0.2:${port}`,
    // Neighbours: previews, subdomains, and names that begin or end alike.
    `http://8000-sandbox.localhost:${port}`,
    `http://sub.${host}`,
    `http://${hostname}.evil.example:${port}`,
    `http://evil-${host}`,
    `http://${hostname}.:${port}`,
    // Texts that a parser may take for the own origin, and no browser writes.
    `http://${hostname}:${port}@evil.example`,
    `http://evil.example@${host}`,
    `http://evil.example/${host}`,
    `http://evil.example#${host}`,
    `http://evil.example\\@${host}`,
    `HTTP://${host}`,
    `${own}/`,
    `${own}, https://evil.example`,
    `https://evil.example, ${own}`,
    `http://0x7f.1:${port}`,
    `http://2130706433:${port}`,
    // Pages without a server.
    "file://",
    "data:text/html,x",
    "blob:null/5d5c8f4e",
    `blob:${own}/5d5c8f4e`,
    "about:blank",
    "javascript:alert(1)",
    "chrome-extension://abcdefghijklmnopabcdefghijklmnop",
    "moz-extension://0a1b2c3d-0000-4000-8000-000000000000",
    "safari-web-extension://0A1B2C3D",
    "app://obsidian.md",
    "capacitor://localhost",
    "tauri://localhost",
    "vscode-webview://abc",
  ].map((origin): Headers => ({ origin }));
  const sites = ["cross-site", "same-site", "Same-Origin", "", "same-origin, cross-site"];
  return [
    ...origins,
    {},
    ...sites.map((site) => ({ "sec-fetch-site": site })),
    ...sites.map((site) => ({ "sec-fetch-site": site, origin: own })),
  ];
};

/** The Cookie header of a login. */
async function logIn(): Promise<string> {
  const answer = await server.call("POST", "/login", { key: null, body: { key } });
  return answer.headers.getSetCookie()[0]!.split(";")[0]!;
}

/** Asks as a browser does that sends exactly these headers; returns the status. */
function ask(method: string, path: string, headers: Headers, body = "{}", to = port): Promise<number> {
  return new Promise((resolve, reject) => {
    const type = { "content-type": "application/json", "content-length": `${body.length}` };
    request({ host: "127.0.0.1", port: to, method, path, headers: { ...type, ...headers } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode!);
    })
      .on("error", reject)
      .end(body);
  });
}

const changing = (): [string, string, string?][] => [
  ["POST", "/api/keys", '{"name":"stolen"}'],
  ["POST", "/api/settings", '{"language":"fr"}'],
  ["POST", "/api/v1/secrets", '{"name":"STOLEN","value":"x"}'],
  ["POST", "/api/v1/app-conversations"],
  ["POST", "/api/v1/sandboxes"],
  ["POST", `/api/conversations/${conversation}/events`, '{"role":"user","content":[]}'],
  ["PATCH", `/api/v1/app-conversations/${conversation}`, '{"title":"stolen"}'],
  ["DELETE", `/api/v1/app-conversations/${conversation}`],
  ["PUT", "/api/v1/sandboxes/sandbox-1/files?path=/tmp/x", "x"],
  ["POST", "/agent/sandbox-1/api/bash/start_bash_command", '{"command":"true"}'],
  ["POST", "/agent/sandbox-1/api/auth/workspace-session"],
  ["POST", "/v1/chat/completions"],
  ["POST", "/login", `{"key":"${key}"}`],
  ["POST", "/logout"],
];

test("no foreign page changes anything with the login, whatever it calls itself", async () => {
  const cookie = await logIn();
  const before = (await read(server.call("GET", "/api/keys"))).body.length;
  for (const headers of foreign(server.url)) {
    for (const [method, path, body] of changing()) {
      // Programs that are no browsers log in and out without an origin.
      if (/^\/log/.test(path) && Object.keys(headers).length === 0) continue;
      expect([method, path, headers, await ask(method, path, { cookie, ...headers }, body)]).toEqual([
        ...[method, path, headers],
        403,
      ]);
    }
  }
  expect((await read(server.call("GET", "/api/keys"))).body).toHaveLength(before);
  // The login is still there, and the own page may all that.
  const own = { cookie, origin: server.url };
  expect(await ask("POST", "/api/keys", own, '{"name":"mine"}')).toBe(201);
  expect(await ask("POST", "/api/settings", own, '{"language":"fr"}')).toBe(200);
  expect(await ask("PUT", "/api/v1/sandboxes/sandbox-1/files?path=/tmp/x", own, "x")).not.toBe(403);
});

test("each route that changes something refuses the login of a foreign page", async () => {
  const cookie = await logIn();
  const { body } = await read(server.call("GET", "/openapi.json"));
  const routes = Object.entries<object>(body.paths).flatMap(([path, methods]) =>
    Object.keys(methods)
      .map((method) => method.toUpperCase())
      .filter((method) => method !== "GET" && method !== "HEAD" && !/^\/log(?:in|out)$/.test(path))
      .map((method): [string, string] => [method, path.replaceAll(/\{\w+\}/g, "x")]),
  );
  expect(routes.length).toBeGreaterThan(100);
  const pages: Headers[] = [{ origin: "https://evil.example" }, { "sec-fetch-site": "cross-site" }];
  for (const headers of pages)
    for (const [method, path] of routes) {
      for (const prefix of path.startsWith("/api/v1/") ? [""] : ["", "/agent/sandbox-1"])
        expect([method, path, await ask(method, prefix + path, { cookie, ...headers })]).toEqual([
          ...[method, path],
          403,
        ]);
    }
});

test("no foreign page opens a socket with the login", async () => {
  const cookie = await logIn();
  const paths = [
    `/sockets/events/${conversation}?resend_mode=all`,
    "/sockets/bash-events?sandbox_id=sandbox-1&resend_mode=all",
    "/sockets/terminal?sandbox_id=sandbox-1",
    `/agent/sandbox-1/sockets/events/${conversation}`,
  ];
  const open = async (path: string, headers: Headers) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}${path}`, { headers: { cookie, ...headers } });
    const seen: string[] = [];
    socket.on("message", (data) => seen.push(String(data))).on("error", () => {});
    const closed = once(socket, "close");
    const opened = once(socket, "open");
    await Promise.race([opened, closed]);
    return { socket, seen, closed };
  };
  const pages = [...foreign(server.url), { "sec-fetch-site": "none" }];
  for (const path of paths) {
    await Promise.all(
      pages.map(async (headers) => {
        const { socket, seen, closed } = await open(path, headers);
        // Without a credential, the first frame must bring a key.
        if (socket.readyState === WebSocket.OPEN) socket.send('{"role":"user","content":[]}');
        const [code] = await closed;
        expect([path, headers, seen, code === 4001 || code === 1006]).toEqual([path, headers, [], true]);
      }),
    );
    const mine = await open(path, { origin: server.url });
    const heard = once(mine.socket, "message");
    mine.socket.send("{}");
    const [first] = await Promise.race([heard, mine.closed]);
    expect([path, first]).not.toEqual([path, 4001]);
    mine.socket.terminate();
  }
});

test("where browsers use https, a page of the same host in plain http is foreign", async () => {
  const page = "sandpiper.example";
  const ways: [Parameters<typeof startServer>[0], Headers][] = [
    [{ publicUrl: `https://${page}` }, {}],
    [{ trustedProxies: ["127.0.0.1/32"] }, { "x-forwarded-proto": "https" }],
  ];
  for (const [config, more] of ways) {
    const behind = await startServer(config);
    const to = behind.port;
    const answer = await fetch(`http://127.0.0.1:${to}/login`, {
      method: "POST",
      headers: { "content-type": "application/json", ...more },
      body: JSON.stringify({ key }),
    });
    const cookie = answer.headers.getSetCookie()[0]!.split(";")[0]!;
    const from = (origin: string, host = page) => ({ cookie, host, origin, ...more });
    const post = (headers: Headers) => ask("POST", "/api/settings", headers, "{}", to);
    expect(await post(from(`https://${page}`))).toBe(200);
    expect(await post(from(`https://${page}`, `${page}:443`))).toBe(200);
    for (const origin of [`http://${page}`, `http://${page}:443`, `https://${page}:444`, `https://${page}.`])
      expect([origin, await post(from(origin))]).toEqual([origin, 403]);
    const handshake = (origin: string) =>
      new WebSocket(`ws://127.0.0.1:${to}/sockets/events/x`, { headers: from(origin) }).on("error", () => {});
    const refused = handshake(`http://${page}`);
    await once(refused, "open");
    refused.send("{}");
    expect((await once(refused, "close"))[0]).toBe(4001);
    // No such conversation: the login counted.
    expect((await once(handshake(`https://${page}`), "close"))[0]).toBe(4004);
    // Somebody who works on the machine itself.
    const local = `127.0.0.1:${to}`;
    expect(await post(from(`http://${local}`, local))).toBe(200);
    await behind.close();
  }
});

test("a page of another origin that has a key works; a browser shows answers to known origins only", async () => {
  const known = ["https://gui.example", "http://localhost:8000", "http://127.0.0.1:5173", "http://[::1]:80"];
  const unknown = ["https://evil.example", "http://gui.example", "https://gui.example.evil.example", "null"];
  const lines: Headers[] = [{ "x-session-api-key": key }, { authorization: `Bearer ${key}` }];
  for (const origin of [...known, ...unknown])
    for (const line of lines) {
      const headers = { ...line, origin, "sec-fetch-site": "cross-site" };
      const answer = await server.call("POST", "/api/settings", { key: null, headers, body: {} });
      expect([origin, answer.status]).toEqual([origin, 200]);
      const shownTo = answer.headers.get("access-control-allow-origin");
      expect([origin, shownTo]).toEqual([origin, known.includes(origin) ? origin : null]);
    }
  for (const origin of known) {
    const headers = {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "x-session-api-key, authorization, content-type",
    };
    const answer = await server.call("OPTIONS", "/api/settings", { key: null, headers });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([204, origin]);
    expect(answer.headers.get("access-control-allow-headers")).toMatch(/x-session-api-key/);
  }
});
