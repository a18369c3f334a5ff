import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import { gzipSync } from "node:zlib";
import { PlatformError } from "@sandpiper/core/errors";
import type { OutboundRequest } from "@sandpiper/core/outbound/api";
import { createOutbound, type OutboundOptions } from "@sandpiper/core/outbound/outbound";
import { portOf, serve as serveTls, testAuthority } from "@sandpiper/sandbox/test/support/egress";
import { afterEach, expect, test } from "vitest";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

function outboundWith(options: Partial<OutboundOptions> = {}) {
  const outbound = createOutbound({ allowPrivate: ["127.0.0.0/8"], ...options });
  ends.push(() => outbound.close());
  return outbound;
}

/** A real server on a loopback address; `asked` collects the received requests. */
async function serve(listener: RequestListener, address = "127.0.0.1") {
  const asked: IncomingMessage[] = [];
  const server: Server = createServer((request, response) => {
    asked.push(request);
    listener(request, response);
  });
  server.listen(0, address);
  await once(server, "listening");
  ends.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, asked, url: `http://${address}:${port}` };
}

async function failure(work: Promise<unknown>): Promise<{ code: string; message: string }> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(PlatformError);
  return error as PlatformError;
}

test("a request to an allowed address has its method, headers and body, and its response is read", async () => {
  const { url, asked } = await serve(async (request, response) => {
    const body = (await request.toArray()).join("");
    response
      .writeHead(201, { "set-cookie": ["a=1", "b=2"], "x-seen": request.headers["x-mine"] })
      .end(`${request.method} ${body}`);
  });
  const answer = await outboundWith().fetch(`${url}/path?q=1`, {
    method: "POST",
    headers: { "X-Mine": "yes" },
    body: "hello",
  });
  expect([answer.status, answer.headers.get("x-seen"), answer.headers.getSetCookie()]).toEqual([
    201,
    "yes",
    ["a=1", "b=2"],
  ]);
  expect(await answer.text()).toBe("POST hello");
  expect(asked[0]!.url).toBe("/path?q=1");
});

test("private, loopback and reserved addresses are refused in every spelling before anything is sent", async () => {
  const { port, asked } = await serve((_request, response) => response.end("secret of the network"));
  const outbound = outboundWith({ allowPrivate: [] });
  const hosts = [
    ...[
      "127.0.0.1",
      "2130706433",
      "0x7f000001",
      "0177.0.0.1",
      "127.1",
      "0",
      "localhost",
      "localhost.",
      "LOCALHOST",
      "①②⑦.0.0.1",
    ],
    ...[
      "[::1]",
      "[::]",
      "[::ffff:127.0.0.1]",
      "[::ffff:7f00:1]",
      "[0:0:0:0:0:ffff:127.0.0.1]",
      "[64:ff9b::7f00:1]",
      "[2002:7f00:1::]",
    ],
    ...[
      "10.0.0.1",
      "192.168.1.1",
      "172.16.0.1",
      "169.254.169.254",
      "100.64.0.1",
      "[fe80::1]",
      "[fd00::1]",
      "224.0.0.1",
    ],
  ];
  for (const host of hosts) {
    const { code, message } = await failure(outbound.fetch(`http://${host}:${port}/`, { timeoutMs: 5_000 }));
    expect([host, code]).toEqual([host, "OutboundRefused"]);
    expect(message).toContain("SANDPIPER_OUTBOUND_PRIVATE");
  }
  expect(asked).toEqual([]);
});

test("a name that points to a private address is refused, and the error does not contain the address", async () => {
  const { port, asked } = await serve((_request, response) => response.end());
  const outbound = outboundWith({ allowPrivate: [], resolve: async () => ["127.0.0.1", "::1", "10.2.3.4"] });
  const { code, message } = await failure(outbound.fetch(`http://inside.example:${port}/`));
  expect(code).toBe("OutboundRefused");
  expect(message).not.toContain("127.0.0.1");
  expect(asked).toEqual([]);
});

test("a name that changes its address after the check gains nothing: the connection goes to the checked address", async () => {
  const good = await serve((_request, response) => response.end("checked"), "127.3.0.1");
  const bad = await serve((_request, response) => response.end("rebound"), "127.0.0.1");
  let asks = 0;
  const resolve = async () => (asks++ === 0 ? ["127.3.0.1"] : ["127.0.0.1"]);
  const outbound = outboundWith({ allowPrivate: ["127.3.0.0/16"], resolve });
  expect(await (await outbound.fetch(`http://rebind.example:${good.port}/`)).text()).toBe("checked");
  expect(asks).toBe(1);
  expect((await failure(outbound.fetch(`http://rebind.example:${bad.port}/`))).code).toBe("OutboundRefused");
  expect(bad.asked).toEqual([]);
});

test("of several addresses of a name only the allowed ones are tried", async () => {
  const { port } = await serve((_request, response) => response.end("allowed"), "127.3.0.2");
  const outbound = outboundWith({
    allowPrivate: ["127.3.0.0/16"],
    resolve: async () => ["10.0.0.1", "127.0.0.1", "127.3.0.2"],
  });
  expect(await (await outbound.fetch(`http://mixed.example:${port}/`)).text()).toBe("allowed");
});

test("a request with a secret is sent unencrypted only to allowed ranges", async () => {
  const { port } = await serve((_request, response) => response.end("ok"));
  const outbound = outboundWith({
    resolve: async (host) => (host === "public.example" ? ["93.184.216.34"] : ["127.0.0.1"]),
  });
  expect(await (await outbound.fetch(`http://inside.example:${port}/`, { secret: true })).text()).toBe("ok");
  expect((await failure(outbound.fetch("http://public.example/", { secret: true }))).code).toBe(
    "OutboundRefused",
  );
  expect((await failure(outbound.fetch("http://93.184.216.34/", { secret: true }))).code).toBe(
    "OutboundRefused",
  );
});

test("addresses of other schemes, with user information, without a host or absurdly long are refused", async () => {
  const outbound = outboundWith();
  const urls = [
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "data:,x",
    "http://u:p@127.0.0.1/",
    "http://",
    "no address",
    "",
    "gopher://x",
  ];
  for (const url of [...urls, `http://127.0.0.1/${"x".repeat(10_000)}`]) {
    const { code, message } = await failure(outbound.fetch(url));
    expect([url, code]).toEqual([url, "OutboundRefused"]);
    expect(message).not.toContain("u:p");
  }
  for (const headers of [{ "x-a": "1\r\nx-b: 2" }, { "bad name": "1" }] as Record<string, string>[]) {
    const { code, message } = await failure(outbound.fetch("http://127.0.0.1:1/", { headers }));
    expect([code, message.includes("x-b: 2")]).toEqual(["OutboundRefused", false]);
  }
});

test("redirects within an origin keep headers; to another origin they lose credentials of every name", async () => {
  const other = await serve((_request, response) => response.end("there"), "127.3.0.3");
  const one = await serve((request, response) => {
    const to =
      request.url === "/away" ? `${other.url}/end` : request.url === "/start" ? "/middle" : undefined;
    if (to) response.writeHead(302, { location: to }).end();
    else response.end("here");
  });
  const outbound = outboundWith();
  const headers = {
    Authorization: "Bearer abc",
    "PRIVATE-TOKEN": "def",
    cookie: "c=1",
    accept: "text/plain",
  };
  expect(await (await outbound.fetch(`${one.url}/start`, { headers })).text()).toBe("here");
  expect(one.asked[1]!.headers).toMatchObject({ authorization: "Bearer abc", "private-token": "def" });
  expect(await (await outbound.fetch(`${one.url}/away`, { headers })).text()).toBe("there");
  expect(other.asked[0]!.headers).toMatchObject({ accept: "text/plain" });
  for (const name of ["authorization", "private-token", "cookie"])
    expect(other.asked[0]!.headers[name]).toBeUndefined();
});

test("a redirect to a private address or another scheme, and endless redirects, are refused", async () => {
  const inside = await serve((_request, response) => response.end("secret"), "127.0.0.1");
  let location = "";
  const evil = await serve((_request, response) => response.writeHead(307, { location }).end(), "127.3.0.4");
  const outbound = outboundWith({ allowPrivate: ["127.3.0.0/16"] });
  const targets = [
    `${inside.url}/`,
    "http://[::1]/",
    "http://169.254.169.254/latest/meta-data",
    "file:///etc/passwd",
    "/again",
    "http://[",
  ];
  for (location of targets)
    expect([location, (await failure(outbound.fetch(evil.url))).code]).toEqual([location, "OutboundRefused"]);
  expect(inside.asked).toEqual([]);
});

test("a redirected POST becomes a GET as HTTP specifies, and no body is sent to another origin", async () => {
  const other = await serve((_request, response) => response.end("there"), "127.3.0.5");
  const one = await serve((request, response) => {
    const [, status, place] = request.url!.split("/");
    if (status === "end")
      return void response.end(`${request.method} ${request.headers["content-length"] ?? 0}`);
    response.writeHead(Number(status), { location: place === "same" ? "/end" : other.url }).end();
  });
  const outbound = outboundWith();
  const post = (path: string) => outbound.fetch(`${one.url}/${path}`, { method: "POST", body: "payload" });
  expect(await (await post("303/same")).text()).toBe("GET 0");
  expect(await (await post("307/same")).text()).toBe("POST 7");
  expect(await (await post("302/other")).text()).toBe("there");
  expect((await failure(post("308/other"))).code).toBe("OutboundRefused");
  expect(other.asked.map((request) => request.method)).toEqual(["GET"]);
});

test("answers that are too long, too slow, bombs, or in an unrequested encoding fail with one sentence", async () => {
  const bomb = gzipSync(Buffer.alloc(64 * 1024 * 1024));
  const { url } = await serve((request, response) => {
    if (request.url === "/long") return void response.end("x".repeat(2_000));
    if (request.url === "/gzip")
      return void response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("small"));
    if (request.url === "/bomb")
      return void response.writeHead(200, { "content-encoding": "gzip" }).end(bomb);
    if (request.url === "/br") return void response.writeHead(200, { "content-encoding": "br" }).end("x");
    if (request.url === "/broken")
      return void response.writeHead(200, { "content-encoding": "gzip" }).end("no gzip");
    if (request.url === "/cut")
      return void response.writeHead(200, { "content-length": "10" }).write("x", () => response.destroy());
    if (request.url === "/slow") return void response.write("x");
  });
  const outbound = outboundWith();
  const read = async (path: string, options: OutboundRequest = {}) =>
    (await outbound.fetch(url + path, options)).text();
  expect(await read("/gzip")).toBe("small");
  expect((await read("/long", { maxBytes: 2_000 })).length).toBe(2_000);
  const before = process.memoryUsage().rss;
  const bad: [string, OutboundRequest][] = [
    ["/long", { maxBytes: 1_999 }],
    ["/bomb", { maxBytes: 1_000_000 }],
    ["/br", {}],
    ["/broken", {}],
    ["/cut", {}],
    ["/slow", { timeoutMs: 200 }],
    ["/silent", { timeoutMs: 200 }],
  ];
  for (const [path, options] of bad)
    expect([path, (await failure(read(path, options))).code]).toEqual([path, "OutboundFailed"]);
  expect(process.memoryUsage().rss - before).toBeLessThan(48 * 1024 * 1024);
});

test("an answer arrives in pieces while the server still writes, and the caller's abort ends it", async () => {
  const { url } = await serve((_request, response) => void response.write("first"));
  const abort = new AbortController();
  const answer = await outboundWith().fetch(url, { signal: abort.signal });
  const reader = answer.body!.getReader();
  expect(Buffer.from((await reader.read()).value!).toString()).toBe("first");
  abort.abort(new Error("enough"));
  await expect(reader.read()).rejects.toThrow("enough");
});

test("an answer that is cancelled unread ends its connection", async () => {
  const { url, asked } = await serve((_request, response) => void response.write("first"));
  const answer = await outboundWith().fetch(url, { timeoutMs: 60_000 });
  const closed = once(asked[0]!.socket, "close");
  await answer.body!.cancel();
  await closed;
});

test("over TLS the certificate must match the requested name and be of a trusted authority", async () => {
  const inside = await serveTls((_request, response) => response.end("over TLS"), {
    address: "127.3.0.6",
    host: "inside.example",
  });
  ends.push(() => inside.close());
  const outbound = outboundWith({ resolve: async () => ["127.3.0.6"] });
  const url = `https://inside.example:${portOf(inside)}/`;
  expect((await failure(outbound.fetch(url))).message).toContain("could not be reached");
  const trusted = getCACertificates("default");
  setDefaultCACertificates([...trusted, testAuthority]);
  ends.push(() => setDefaultCACertificates(trusted));
  expect(await (await outbound.fetch(url, { secret: true })).text()).toBe("over TLS");
  expect((await failure(outbound.fetch(url.replace("inside", "other")))).code).toBe("OutboundFailed");
});

test("a closed port and an unknown name get readable errors", async () => {
  const { port } = await serve(() => {});
  await ends.pop()!();
  const outbound = outboundWith({ resolve: async () => [] });
  expect((await failure(outbound.fetch(`http://127.0.0.1:${port}/`))).message).toContain(
    "could not be reached",
  );
  expect(await failure(outbound.fetch("https://nowhere.example/"))).toMatchObject({
    code: "OutboundFailed",
    message: "The host nowhere.example does not exist.",
  });
});
