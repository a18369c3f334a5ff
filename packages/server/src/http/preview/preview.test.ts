import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { connect } from "node:net";
import { buffer } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { echo, navigation, PreviewBench } from "../../../test/support/preview.ts";

let bench: PreviewBench;
beforeAll(async () => {
  bench = await PreviewBench.start();
  await bench.app(8000, echo);
});
afterAll(() => bench.close());

const mebibyte = 1024 * 1024;

/** The request as the echo on port 8000 received it. */
const got = (answer: { text: string }) => JSON.parse(answer.text);

test("a link opens a preview under its host name: the browser gets a cookie and leaves the token behind", async () => {
  const { url } = await bench.link(8000);
  expect(url.host).toBe(bench.host(8000));
  const first = await bench.call(`/a/b${url.search}&x=1`, { host: url.host, key: null, headers: navigation });
  expect(first).toMatchObject({
    status: 303,
    headers: { location: `http://${url.host}/a/b?x=1`, "referrer-policy": "no-referrer" },
  });
  const [secure, lax] = first.headers["set-cookie"]!;
  expect(secure).toMatch(
    /^sandpiper_preview=\S+; Path=\/; HttpOnly; Max-Age=86(399|400); Secure; SameSite=None; Partitioned$/,
  );
  expect(lax).toMatch(/^sandpiper_preview_lax=\S+; Path=\/; HttpOnly; Max-Age=\d+; SameSite=Lax$/);
  for (const cookie of [secure!, lax!]) {
    const headers = { ...navigation, cookie: `own=1; ${cookie.split(";")[0]}; other=2` };
    const answer = await bench.call("/a/b?x=1", { host: url.host, key: null, headers });
    expect(answer.status).toBe(200);
    expect(got(answer)).toMatchObject({
      method: "GET",
      url: "/a/b?x=1",
      headers: { cookie: "own=1; other=2" },
    });
  }
});

test("a link opens a preview under a path, where the session stays in the path and the app gets its prefix", async () => {
  const { pathUrl } = await bench.link(8000);
  expect(pathUrl.origin).toBe(bench.server.url);
  const opened = await bench.call(`${pathUrl.pathname}a/b${pathUrl.search}&x=1`, {
    key: null,
    headers: navigation,
  });
  expect(opened).toMatchObject({
    status: 303,
    headers: { location: expect.stringMatching(/\/preview\/sbx-one\/8000\/~[^/]+\/a\/b\?x=1$/) },
  });
  expect(opened.headers["set-cookie"]).toBeUndefined();
  const { pathname, search } = new URL(opened.headers.location!, bench.server.url);
  const page = await bench.call(pathname + search, {
    key: null,
    headers: { origin: "null", "sec-fetch-site": "cross-site", "x-forwarded-host": "evil.example" },
  });
  expect(page.status).toBe(200);
  expect(page.headers["access-control-allow-origin"]).toBe("null");
  const { url, headers } = got(page);
  expect(url).toBe("/a/b?x=1");
  expect(headers).toMatchObject({ host: "localhost:8000", origin: "http://localhost:8000" });
  expect(headers["x-forwarded-prefix"]).toBe(pathname.replace("/a/b", ""));
  for (const name of ["sec-fetch-site", "x-forwarded-host"]) expect(headers[name]).toBeUndefined();
  const slash = await bench.call("/preview/sbx-one/8000?x=1", { key: null });
  expect(slash).toMatchObject({ status: 308, headers: { location: "/preview/sbx-one/8000/?x=1" } });
});

test("the path form answers preflights of pages without an origin", async () => {
  const path = await bench.pathSession(8000);
  const headers = {
    origin: "null",
    "access-control-request-method": "PATCH",
    "access-control-request-headers": "x-own",
  };
  expect(await bench.call(path, { key: null, method: "OPTIONS", headers })).toMatchObject({
    status: 204,
    headers: {
      "access-control-allow-origin": "null",
      "access-control-allow-methods": "PATCH",
      "access-control-allow-headers": "x-own",
    },
  });
  const plain = await bench.call(path, { key: null, method: "OPTIONS", headers: { origin: "null" } });
  expect(got(plain).method).toBe("OPTIONS");
});

test("the links of WORKER_1 and WORKER_2 can be polled from the GUI's page, and stay the same", async () => {
  await bench.app(8011, echo);
  const read = async () => got(await bench.call("/api/v1/sandboxes?id=sbx-one"))[0].exposed_urls;
  const urls = await read();
  expect(urls.map(({ name, port }: { name: string; port: number }) => [name, port])).toEqual([
    ["AGENT_SERVER", bench.server.port],
    ["WORKER_1", 8011],
    ["WORKER_2", 8012],
  ]);
  expect(await read()).toEqual(urls);
  const url = new URL(urls[1].url);
  const headers = {
    origin: "http://localhost:3001",
    "sec-fetch-mode": "cors",
    "sec-fetch-site": "cross-site",
    accept: "text/html",
  };
  const polled = await bench.call(url.pathname + url.search, { host: url.host, key: null, headers });
  expect(polled).toMatchObject({
    status: 200,
    headers: { "access-control-allow-origin": "http://localhost:3001" },
  });
  expect(got(polled).url).toBe("/");
});

test("any method and body is forwarded with correct forwarding headers", async () => {
  const host = bench.host(8000);
  for (const method of ["POST", "PUT", "PATCH", "DELETE", "PROPFIND"]) {
    const answer = await bench.call("/x?a=%2F&b", {
      host,
      method,
      body: "text",
      headers: { "content-length": "4" },
    });
    expect(got(answer)).toMatchObject({ method, url: "/x?a=%2F&b", body: "text" });
  }
  expect(got(await bench.call("/", { host, method: "POST" })).headers["content-length"]).toBe("0");
  const headers = {
    "x-forwarded-for": "6.6.6.6",
    "x-forwarded-proto": "gopher",
    forwarded: "for=6.6.6.6",
    connection: "keep-alive, x-hop",
    "x-hop": "1",
    te: "trailers",
    "x-twice": ["1", "2"],
  };
  const seen = got(await bench.call("/", { host, headers })).headers;
  expect(seen).toMatchObject({
    host,
    connection: "keep-alive",
    "x-forwarded-host": host,
    "x-forwarded-for": "127.0.0.1",
    "x-forwarded-proto": "http",
    "x-forwarded-port": String(bench.server.port),
    "x-twice": "1, 2",
  });
  for (const name of ["forwarded", "x-hop", "te", "x-session-api-key"]) expect(seen[name]).toBeUndefined();
});

test("redirects and cookies of an app stay within its preview", async () => {
  let to = "";
  const cookies = [
    "a=1; Path=/app; HttpOnly",
    "b=2",
    "__Host-c=3; Path=/; Secure",
    "d=4; Domain=localhost",
    "sandpiper_preview=x",
    "=y",
  ];
  await bench.app(8002, (request, response) => {
    response.writeHead(302, { location: to, "set-cookie": cookies }).end(request.headers.cookie);
  });
  const prefix = (await bench.pathSession(8002)).replace(/\/$/, "");
  const ask = async (location: string, options: Parameters<typeof bench.call>[1], path: string) => {
    to = location;
    return bench.call(path, options);
  };
  const host = bench.host(8002);
  for (const [location, byHost, byPath] of [
    ["/x?y#z", `http://${host}/x?y#z`, `${prefix}/x?y#z`],
    ["x", `http://${host}/dir/x`, `${prefix}/dir/x`],
    ["http://localhost:8002/x", `http://${host}/x`, `${prefix}/x`],
    ["http://0.0.0.0:8002/x", `http://${host}/x`, `${prefix}/x`],
    ["http://localhost:9000/x", "http://localhost:9000/x", "http://localhost:9000/x"],
    ["//elsewhere.example/x", "//elsewhere.example/x", "//elsewhere.example/x"],
    [`${prefix}/x`, `http://${host}${prefix}/x`, `${prefix}/x`],
    ["/preview/sbx-one/8002/x", `http://${host}/preview/sbx-one/8002/x`, `${prefix}/x`],
    ["http://[", "http://[", "http://["],
  ] as const) {
    expect((await ask(location, { host }, "/dir/")).headers.location).toBe(byHost);
    expect((await ask(location, { key: null }, `${prefix}/dir/`)).headers.location).toBe(byPath);
  }
  const byHost = await ask("/", { host }, "/");
  expect(byHost.headers["set-cookie"]).toEqual([
    "a=1; Path=/app; HttpOnly",
    "b=2",
    "__Host-c=3; Path=/; Secure",
    "d=4",
  ]);
  const own = "/preview/sbx-one/8002/";
  const byPath = await ask(
    "/",
    { key: null, headers: { cookie: "a=0; preview_a=1; sandpiper=2; preview_b=2" } },
    `${prefix}/`,
  );
  expect(byPath.text).toBe("a=1; b=2");
  expect(byPath.headers["set-cookie"]).toEqual([
    `preview_a=1; HttpOnly; Path=${own}app`,
    `preview_b=2; Path=${own}`,
    `preview_d=4; Path=${own}`,
  ]);
});

test("responses are streamed, and the app's connection ends when the client leaves", async () => {
  let left: Promise<unknown> | undefined;
  let next = () => {};
  await bench.app(8003, (_request, response) => {
    left = once(response, "close");
    response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    next = () => response.write("data: tick\n\n");
  });
  const call = httpRequest({
    port: bench.server.port,
    headers: { host: bench.host(8003), cookie: await bench.session(8003) },
  });
  const [answer] = (await once(call.end(), "response")) as [IncomingMessage];
  for (let count = 0; count < 3; count++) {
    next();
    expect(String((await once(answer, "data"))[0])).toBe("data: tick\n\n");
  }
  call.destroy();
  await left;
});

test("the app's connection ends when the client leaves before the response", async () => {
  const asked = Promise.withResolvers<IncomingMessage>();
  await bench.app(8009, (request) => asked.resolve(request));
  const call = httpRequest({
    port: bench.server.port,
    headers: { host: bench.host(8009), cookie: await bench.session(8009) },
  });
  call.on("error", () => {}).end();
  const { socket } = await asked.promise;
  const left = once(socket, "close");
  call.destroy();
  await left;
});

test("uploads and downloads are streamed with backpressure", async () => {
  let arrived = 0;
  let written = 0;
  await bench.app(8004, async (request, response) => {
    for await (const part of request) {
      arrived += part.length;
      response.write("got\n");
    }
    const block = Buffer.alloc(65_536);
    while (written < 128 * mebibyte) {
      written += block.length;
      if (!response.write(block)) await once(response, "drain");
    }
    response.end("end");
  });
  const call = httpRequest({
    port: bench.server.port,
    method: "PUT",
    headers: { host: bench.host(8004), cookie: await bench.session(8004) },
  });
  call.write("first");
  const [answer] = (await once(call, "response")) as [IncomingMessage];
  expect(arrived).toBe(5);
  call.end("second");
  // The app fills the buffers until it has to wait.
  let before = -1;
  const stands = () => {
    const still = written > 0 && written === before;
    before = written;
    return still;
  };
  await expect.poll(stands, { interval: 100 }).toBe(true);
  expect(written).toBeLessThan(32 * mebibyte);
  let length = 0;
  for await (const part of answer) length += part.length;
  expect(length).toBe("got\n".length * 2 + 128 * mebibyte + "end".length);
  expect(arrived).toBe(11);
});

test("a response before the end of the request body still arrives", async () => {
  await bench.app(8005, (_request, response) => response.writeHead(413).end("too large"));
  const answer = await bench.call("/", {
    host: bench.host(8005),
    method: "POST",
    body: Buffer.alloc(300_000),
  });
  expect(answer).toMatchObject({ status: 413, text: "too large" });
});

test("a WebSocket passes in both directions", async () => {
  const server = await bench.app(8001, echo);
  const sockets = new WebSocketServer({ server, handleProtocols: () => "chat" });
  sockets.on("connection", (socket) => socket.on("message", (data, binary) => socket.send(data, { binary })));
  for (const path of ["/hot?x=1", `${await bench.pathSession(8001)}hot`]) {
    const own = path.startsWith("/preview")
      ? { origin: "null" }
      : { host: bench.host(8001), cookie: await bench.session(8001), origin: `http://${bench.host(8001)}` };
    const socket = new WebSocket(`ws://127.0.0.1:${bench.server.port}${path}`, ["chat", "other"], {
      headers: own,
    });
    await once(socket, "open");
    expect(socket.protocol).toBe("chat");
    socket.send("x".repeat(1_000_000));
    const [data] = await once(socket, "message");
    expect(data).toHaveLength(1_000_000);
    socket.close(4321, "bye");
    expect((await once(socket, "close"))[0]).toBe(4321);
  }
});

test("bytes sent with a handshake are not lost", async () => {
  await bench.rawApp(8006, (socket) => {
    socket.once("data", () => {
      socket.write(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nearly",
      );
      socket.pipe(socket);
    });
  });
  const socket = connect(bench.server.port, "127.0.0.1");
  const cookie = await bench.session(8006);
  const head = [
    "GET / HTTP/1.1",
    `Host: ${bench.host(8006)}`,
    `Cookie: ${cookie}`,
    "Connection: Upgrade",
    "Upgrade: websocket",
  ];
  socket.end(`${head.join("\r\n")}\r\n\r\nhello`);
  const text = (await buffer(socket)).toString();
  expect(text).toMatch(/^HTTP\/1.1 101 /);
  expect(text.split("\r\n\r\n")[1]).toBe("earlyhello");
});

test("without a listening app a browser gets a reloading page, and a program an error message", async () => {
  const page = await bench.call("/", { host: bench.host(8999), headers: navigation });
  expect(page).toMatchObject({ status: 502, headers: { "content-type": "text/html; charset=utf-8" } });
  expect(page.text).toContain("Nothing listens on port 8999");
  expect(page.text).toContain('http-equiv="refresh"');
  const program = await bench.call("/", { host: bench.host(8999) });
  expect(program).toMatchObject({
    status: 502,
    text: expect.stringMatching(/^{"detail":"Nothing listens on port 8999/),
  });
});

test("previews under a public name look local to the app", async () => {
  const remote = await PreviewBench.start({ publicUrl: "https://sand.example/base" });
  try {
    await remote.app(8000, echo);
    const { url, pathUrl } = await remote.link(8000);
    expect(url.origin).toBe("https://8000-sbx-one.sand.example");
    expect(pathUrl.href).toMatch(/^https:\/\/sand\.example\/base\/preview\/sbx-one\/8000\/\?/);
    const first = await remote.call(`/${url.search}`, { host: url.host, key: null, headers: navigation });
    expect(first.headers.location).toBe("https://8000-sbx-one.sand.example/");
    expect(first.headers["set-cookie"]).toHaveLength(1);
    const cookie = first.headers["set-cookie"]![0]!.split(";")[0]!;
    const headers = { cookie, origin: url.origin, referer: `${url.origin}/page` };
    const seen = got(await remote.call("/", { host: url.host, key: null, headers })).headers;
    expect(seen).toMatchObject({
      host: "localhost:8000",
      origin: "http://localhost:8000",
      referer: "http://localhost:8000/page",
    });
    expect(seen["x-forwarded-host"]).toBeUndefined();
    const opened = await remote.call(`/preview/sbx-one/8000/${pathUrl.search}`, {
      key: null,
      headers: navigation,
    });
    expect(opened.headers.location).toMatch(/^\/base\/preview\/sbx-one\/8000\/~/);
    expect((await remote.call("/health", { host: "sand.example", key: null })).status).toBe(200);
  } finally {
    await remote.close();
  }
});

test("a server that shuts down ends open previews at once", async () => {
  const other = await PreviewBench.start();
  await other.app(8000, (_request, response) => response.writeHead(200).flushHeaders());
  const call = httpRequest({
    port: other.server.port,
    headers: { host: other.host(8000), cookie: await other.session(8000) },
  });
  const [answer] = (await once(call.end(), "response")) as [IncomingMessage];
  const ended = once(answer, "error");
  const began = performance.now();
  await other.server.close();
  await ended;
  // Otherwise this takes the five seconds that `close` gives clients.
  expect(performance.now() - began).toBeLessThan(4_000);
  other.endApps();
});
