import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import type { SandboxRow } from "@sandpiper/sandbox/sandbox-store";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket } from "ws";
import { echo, navigation, PreviewBench } from "../../../test/support/preview.ts";
import { key, strangerKey } from "../../../test/support/test-server.ts";
import { makeToken as makeGrantToken, type TokenPurpose } from "../../users/sandbox-grants.ts";

let bench: PreviewBench;
let host: string;
beforeAll(async () => {
  bench = await PreviewBench.start();
  host = bench.host(8000);
  await bench.app(8000, echo);
  await bench.app(8001, echo);
});
afterAll(() => bench.close());

const row = (id = "sbx-one") => bench.server.sandboxes.rows.get(id)!;
const makeToken = async (of: SandboxRow, port: number, purpose: TokenPurpose, expires: number, by = key) =>
  makeGrantToken(
    { row: of, source: (await bench.server.apiKeys.authenticate(by))!.source },
    port,
    purpose,
    expires,
  );
const later = () => Date.now() + 60_000;

test("a request without a key gets an error page and nothing of the app", async () => {
  for (const path of ["/", "/preview/sbx-one/8000/", "/preview/sbx-nobody/8000/"]) {
    const own = path === "/" ? { host } : {};
    const page = await bench.call(path, { ...own, key: null, headers: navigation });
    expect(page).toMatchObject({ status: 401, headers: { "content-type": "text/html; charset=utf-8" } });
    expect(page.text).toContain("open the preview again");
    expect(await bench.call(path, { ...own, key: "wrong-key-0123456789" })).toMatchObject({
      status: 401,
      text: expect.stringMatching(/^{"detail":"/),
    });
    // The server does not wait for the rest of a rejected upload.
    const upload = await bench.call(path, {
      ...own,
      key: null,
      method: "POST",
      body: "x",
      headers: { connection: "keep-alive" },
    });
    expect(upload).toMatchObject({ status: 401, headers: { connection: "close" } });
  }
});

test("keys of the user and the sandbox open a preview and never reach the app; other keys get 404", async () => {
  for (const own of [key, bench.server.sessionKey("sbx-one")]) {
    for (const headers of [{ "x-session-api-key": own }, { authorization: `Bearer ${own}` }]) {
      for (const [path, to] of [
        ["/", { host }],
        ["/preview/sbx-one/8000/", {}],
      ] as const) {
        const answer = await bench.call(path, { ...to, key: null, headers });
        expect(answer.status).toBe(200);
        expect(answer.text).not.toContain(own);
      }
    }
  }
  // No app gets a platform key, whatever opened the preview.
  const both = await bench.call("/", { host, headers: { authorization: `Bearer ${strangerKey}` } });
  expect(both.text).not.toContain(strangerKey);
  const foreign = await bench.call("/", { host, headers: { authorization: "Basic YTpi" } });
  expect(JSON.parse(foreign.text).headers.authorization).toBe("Basic YTpi");
  for (const other of [strangerKey, bench.server.sessionKey("sbx-two")]) {
    expect((await bench.call("/", { host, key: other })).status).toBe(404);
    expect((await bench.call("/preview/sbx-one/8000/", { key: other })).status).toBe(404);
    expect((await bench.call("/api/v1/sandboxes/sbx-one/preview?port=8000", { key: other })).status).toBe(
      404,
    );
  }
  expect((await bench.call("/", { host: bench.host(8000, "sbx-theirs") })).status).toBe(404);
  expect((await bench.call("/api/v1/sandboxes/sbx-theirs/preview?port=8000")).status).toBe(404);
  for (const port of ["0", "65536", "x", ""]) {
    expect((await bench.call(`/api/v1/sandboxes/sbx-one/preview?port=${port}`)).status).toBe(422);
  }
});

test("a token opens one port of one sandbox for one purpose until it expires", async () => {
  const status = async (token: string, to = host) => {
    const answers = [
      await bench.call("/", { host: to, key: null, headers: { cookie: `sandpiper_preview=${token}` } }),
      await bench.call(`/?sandpiper_token=${token}`, { host: to, key: null }),
      await bench.call(`/preview/${/^\d+-(.*?)\./.exec(to)![1]}/${/^\d+/.exec(to)![0]}/~${token}/`, {
        key: null,
      }),
    ];
    return answers.map((answer) => answer.status);
  };
  const session = await makeToken(row(), 8000, "session", later());
  const link = await makeToken(row(), 8000, "link", later());
  expect(await status(session)).toEqual([200, 401, 200]);
  expect(await status(link)).toEqual([401, 200, 401]);
  for (const token of [session, link]) {
    expect(await status(token, bench.host(8001))).toEqual([401, 401, 401]);
    expect(await status(token, bench.host(8000, "sbx-two"))).toEqual([401, 401, 401]);
    expect(await status(token.replace(/.$/, (last) => (last === "A" ? "E" : "A")))).toEqual([401, 401, 401]);
    expect(await status(`z${token}`)).toEqual([401, 401, 401]);
  }
  for (const purpose of ["link", "session"] as const) {
    expect(await status(await makeToken(row(), 8000, purpose, Date.now()))).toEqual([401, 401, 401]);
    const forged = await makeToken({ ...row(), sessionKey: "guess" }, 8000, purpose, later());
    expect(await status(forged)).toEqual([401, 401, 401]);
    const stolen = await makeToken({ ...row(), userId: "stranger" }, 8000, purpose, later());
    expect(await status(stolen)).toEqual([401, 401, 401]);
    const byStranger = await makeToken(row(), 8000, purpose, later(), strangerKey);
    expect(await status(byStranger)).toEqual([401, 401, 401]);
  }
});

test("a wrong cookie set by another page does not mask the right one", async () => {
  const wrong = `sandpiper_preview=${await makeToken(row("sbx-two"), 8000, "session", later())}`;
  const cookie = `sandpiper_preview=; ${wrong}; ${await bench.session(8000)}`;
  const answer = await bench.call("/", { host, key: null, headers: { cookie } });
  expect(answer.status).toBe(200);
  expect(answer.text).not.toContain("sandpiper");
});

test("no other page, not even a neighbouring preview, can use the cookie; only links to a preview work", async () => {
  const cookie = await bench.session(8000);
  const neighbour = `http://${bench.host(8000, "sbx-two")}`;
  const status = async (method: string, headers: Record<string, string>) =>
    (await bench.call("/", { host, key: null, method, headers: { cookie, ...headers } })).status;
  for (const site of ["same-site", "cross-site"]) {
    for (const mode of ["cors", "no-cors", "same-origin"]) {
      expect(
        await status("GET", { "sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": "script" }),
      ).toBe(403);
    }
    const opens = { "sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
    expect(await status("GET", opens)).toBe(200);
    expect(await status("POST", opens)).toBe(403);
    expect(await status("GET", { ...opens, "sec-fetch-dest": "object" })).toBe(403);
  }
  for (const origin of [
    neighbour,
    "null",
    bench.server.url,
    `http://${bench.host(8001)}`,
    "http://evil.example",
    "garbage",
  ]) {
    expect(await status("GET", { origin })).toBe(403);
    expect(await status("POST", { origin })).toBe(403);
    const socket = new WebSocket(`ws://127.0.0.1:${bench.server.port}/`, {
      headers: { host, cookie, origin },
    });
    const [, refusal] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
    expect(refusal.statusCode).toBe(403);
    refusal.destroy();
  }
  expect(await status("POST", { origin: `http://${host}` })).toBe(200);
  expect(await status("POST", { origin: "null", "sec-fetch-site": "same-origin" })).toBe(200);
  const own = await bench.call("/", { host, key: null, headers: { cookie } });
  expect(own.headers["cross-origin-resource-policy"]).toBe("same-origin");
  expect(own.headers["content-security-policy"]).toMatch(
    /^frame-ancestors 'self' http:\/\/127\.0\.0\.1:\d+ /,
  );
});

test("no route of the platform answers on a preview's host name", async () => {
  for (const path of [
    "/api/v1/sandboxes/search",
    "/openapi.json",
    "/health",
    "/docs",
    "/preview/sbx-one/8001/x",
  ]) {
    const answer = await bench.call(path, { host });
    expect(JSON.parse(answer.text)).toMatchObject({ url: path, headers: { host } });
    expect((await bench.call(path, { host, key: null })).status).toBe(401);
    for (const spelling of [host.toUpperCase(), host.replace(":", ".:")]) {
      expect(JSON.parse((await bench.call(path, { host: spelling })).text).url).toBe(path);
    }
  }
  const socket = new WebSocket(`ws://127.0.0.1:${bench.server.port}/sockets/events/x`, { headers: { host } });
  const [, refusal] = (await once(socket, "unexpected-response")) as [unknown, IncomingMessage];
  expect(refusal.statusCode).toBe(401);
  refusal.destroy();
});

test("in the path form a page has no origin, and nothing that it sends touches the platform's host", async () => {
  const dangerous = {
    "clear-site-data": '"*"',
    "service-worker-allowed": "/",
    "strict-transport-security": "max-age=1",
    "alt-svc": 'h2="evil.example:443"',
    nel: "{}",
    "report-to": "{}",
    "content-security-policy": "default-src *; sandbox allow-same-origin",
    "cross-origin-resource-policy": "same-origin",
    "access-control-allow-origin": "https://evil.example",
    "x-own": "1",
  };
  await bench.app(8002, (_request, response) => response.writeHead(200, dangerous).end());
  const path = await bench.pathSession(8002);
  const answer = await bench.call(path, { key: null });
  for (const name of Object.keys(dangerous).filter((one) => !/^(content|access|x)-/.test(one)))
    expect(answer.headers[name]).toBeUndefined();
  expect(answer.headers["x-own"]).toBe("1");
  const policies = String(answer.headers["content-security-policy"]).split(", ");
  expect(policies).toContain("sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads");
  expect(
    (await bench.call(path, { key: null, headers: { origin: "null" } })).headers[
      "access-control-allow-origin"
    ],
  ).toBe("null");
  expect((await bench.call(path, { key: null, headers: { "service-worker": "script" } })).status).toBe(403);
});

test("invalid preview URLs get a readable error", async () => {
  for (const [port, id] of [
    ["0", "sbx-one"],
    ["65536", "sbx-one"],
    ["08000", "sbx-one"],
    ["8000", "sbx_one"],
    ["8000", "a.b"],
    ["8000", ""],
    ["8000", "x".repeat(64)],
  ] as const) {
    const answer = await bench.call("/", { host: bench.host(port, id) });
    expect(answer).toMatchObject({
      status: 404,
      text: expect.stringContaining("needs a port from 1 to 65535"),
    });
  }
  for (const path of [
    "/preview/",
    "/preview/..",
    "/preview/../api/v1/x",
    "/preview/sbx-one/",
    "/preview/sbx-one/8000x/",
    "/preview/%00/80/",
  ])
    expect((await bench.call(path, { key })).status).toBe(404);
  expect((await bench.call("/preview/../../api/v1/sandboxes/search")).text).not.toContain("items");
});

/** Sends bytes; returns every status until the server ends the connection. */
async function statuses(...lines: string[]): Promise<string[]> {
  const socket = connect(bench.server.port, "127.0.0.1");
  socket.on("error", () => {});
  socket.write(lines.join("\r\n"));
  const text = (await buffer(socket)).toString("latin1");
  return [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map((found) => found[1]!);
}

test("malformed and ambiguous requests are refused and never reach the app", async () => {
  let reached = 0;
  await bench.app(8003, (_request, response) => {
    reached++;
    response.end();
  });
  const to = `Host: ${bench.host(8003)}`;
  const own = `Connection: close\r\nX-Session-API-Key: ${key}`;
  expect(await statuses("GET http://evil.example/ HTTP/1.1", to, own, "", "")).toEqual(["400"]);
  expect(await statuses("OPTIONS * HTTP/1.1", to, own, "", "")).toEqual(["400"]);
  expect(await statuses("GET / HTTP/1.1", to, "Host: evil.example", own, "", "")).toEqual(["400"]);
  expect(
    await statuses(
      "POST / HTTP/1.1",
      to,
      own,
      "Content-Length: 1",
      "Transfer-Encoding: chunked",
      "",
      "0",
      "",
      "",
    ),
  ).toEqual(["400"]);
  expect(
    await statuses("POST / HTTP/1.1", to, own, "Content-Length: 1", "Content-Length: 2", "", "xx"),
  ).toEqual(["400"]);
  expect(
    await statuses("POST / HTTP/1.1", to, own, "Transfer-Encoding: gzip, chunked", "", "0", "", ""),
  ).toEqual(["400"]);
  expect(
    await statuses("POST / HTTP/1.1", to, own, "Connection: upgrade", "Upgrade: websocket", "", ""),
  ).toEqual(["400"]);
  const handshake = ["GET / HTTP/1.1", to, own, "Connection: upgrade", "Upgrade: websocket"];
  expect(await statuses(...handshake, "Content-Length: 1", "", "x")).toEqual(["400"]);
  expect(await statuses(...handshake, "Transfer-Encoding: chunked", "", "0", "", "")).toEqual(["400"]);
  expect(await statuses("GET / HTTP/1.1", to, own, `X-Big: ${"x".repeat(20_000)}`, "", "")).toEqual(["431"]);
  expect(await statuses("GET / HTTP/1.1", to, own, "X-Bad: a\0b", "", "")).toEqual(["400"]);
  expect(await statuses("CONNECT localhost:22 HTTP/1.1", to, own, "", "")).toEqual([]);
  expect(await statuses("GET / HTTP/1.1", `${to}9`, own, "", "")).toEqual(["400"]);
  expect(reached).toBe(0);
  expect(await statuses("POST / HTTP/1.1", to, own, "Transfer-Encoding: chunked", "", "zz", "")).toEqual([
    "400",
  ]);
});

test("a request body is forwarded even if the request offers a protocol upgrade", async () => {
  const seen: string[] = [];
  await bench.app(8007, async (request, response) => {
    seen.push(`${request.method} ${request.url} ${await buffer(request)}`);
    response.end();
  });
  const inner = `GET /smuggled HTTP/1.1\r\nHost: ${bench.host(8007)}\r\n\r\n`;
  const head = [
    `Host: ${bench.host(8007)}`,
    `X-Session-API-Key: ${key}`,
    "Connection: Upgrade, close",
    "Upgrade: h2c",
  ];
  await statuses("GET /outer HTTP/1.1", ...head, `Content-Length: ${inner.length}`, "", inner);
  expect(seen).toEqual([`GET /outer ${inner}`]);
});

test("tokens and keys do not appear in the log", async () => {
  const text = bench.server.logs.join("\n");
  for (const secret of [
    key,
    strangerKey,
    row().sessionKey,
    (await makeToken(row(), 8000, "link", later())).slice(-43),
  ])
    expect(text).not.toContain(secret);
  expect(text).not.toMatch(/sandpiper_token=(?!\*)/);
});
