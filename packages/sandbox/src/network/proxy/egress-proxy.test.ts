import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { RequestListener, Server } from "node:http";
import { createServer as createTcpServer } from "node:net";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import {
  basic,
  closed,
  ownAddress,
  serve,
  TestProxy,
  testAuthority,
  token,
} from "../../../test/support/egress.ts";

const address = ownAddress();
const elsewhere = ownAddress();
const secret = "s3cret-of-the-server-0123456789";
let resolutions: string[] = [];
let addressesOf = async (_host: string): Promise<string[]> => [address];
let proxy: TestProxy;
const servers: { close(): unknown }[] = [];
/** Requests that reached a server. */
let seen: { host: string; line: string; headers: string[]; body: string }[] = [];

const echo: RequestListener = async (request, response) => {
  const body = await text(request);
  seen.push({
    host: request.headers.host ?? "",
    line: `${request.method} ${request.url}`,
    headers: request.rawHeaders,
    body,
  });
  if (request.url === "/reflect") {
    response.setHeader("x-reflected", request.headers.authorization ?? "");
    response.setHeader("set-cookie", ["a=1", "b=2"]);
    return response.end(`before ${request.headers.authorization} after`);
  }
  response.setHeader("content-type", "text/plain");
  response.end(`${request.method} ${body.length}`);
};

beforeAll(async () => {
  proxy = await TestProxy.open({
    env: { THE_SECRET: secret, ANOTHER_SECRET: "another-secret" },
    resolve: (host) => {
      resolutions.push(host);
      return addressesOf(host);
    },
  });
  const sockets = await serve((_request, response) => response.end(), {
    address,
    port: 4443,
    host: "ws.test",
  });
  new WebSocketServer({ server: sockets }).on("connection", (socket) =>
    socket.on("message", (data) => socket.send(`got ${data}`)),
  );
  servers.push(
    sockets,
    await serve(echo, { address, port: 80 }),
    await serve(echo, { address, port: 443, host: "a.test" }),
    await serve(echo, { address, port: 8443, host: "other.test" }),
    await serve(echo, { address: elsewhere, port: 80 }),
  );
  const credentials = [
    { name: "TOKEN", hosts: ["a.test"], fromEnv: "THE_SECRET" },
    { name: "OTHER", hosts: ["other.test"], fromEnv: "ANOTHER_SECRET" },
  ];
  await proxy.attach("list", {
    allow: [
      { host: "a.test", ports: [80, 443, 22], methods: null },
      { host: "*.wild.test", ports: [80], methods: null },
      { host: "read.test", ports: [80, 443], methods: ["GET"] },
    ],
  });
  await proxy.attach("open", { mode: "open", private: [`${address}/32`] });
  await proxy.attach("closed", { mode: "open", private: [] });
  await proxy.attach("credentials", {
    allow: [{ host: "*.test", ports: [80, 443, 4443, 8443], methods: null }],
    credentials,
  });
  await proxy.attach("methods", {
    allow: [
      { host: "a.test", ports: [80, 443], methods: ["GET", "HEAD"] },
      { host: "ws.test", ports: [4443], methods: ["GET"] },
    ],
  });
});
afterAll(async () => {
  await proxy.close();
  for (const server of servers) server.close();
});

/** The status of each answer in a stream of them. */
const statuses = (answer: string) =>
  [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
const auth = `Proxy-Authorization: ${basic(token)}\r\n`;

describe("requests", () => {
  test("are forwarded with their own headers and answered, several on one connection", async () => {
    seen = [];
    const answer = await proxy.raw(
      "list",
      `GET http://a.test/one?x=1 HTTP/1.1\r\nHost: wrong.test\r\n${auth}Connection: x-hop\r\nX-Hop: 1\r\nX-Own: 1\r\nTE: gzip\r\n\r\n` +
        `POST http://A.TEST./two HTTP/1.1\r\nHost: a.test\r\n${auth}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n` +
        `HEAD http://a.test HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`,
      (text) => statuses(text).length === 3,
    );
    expect(statuses(answer)).toEqual([200, 200, 200]);
    expect(seen.map(({ host, line, body }) => [host, line, body]).sort()).toEqual([
      ["a.test", "GET /one?x=1", ""],
      ["a.test", "HEAD /", ""],
      ["a.test", "POST /two", "hello"],
    ]);
    expect(seen.find(({ line }) => line.startsWith("GET"))?.headers).toEqual([
      "Host",
      "a.test",
      "X-Own",
      "1",
    ]);
  });

  test("stream: the first part of an answer arrives while the server still works", async () => {
    const { promise: arrived, resolve } = Promise.withResolvers<void>();
    const server = await serve(
      (_request, response) =>
        void response.write("first", () => void arrived.then(() => response.end("last"))),
      {
        address,
        port: 4080,
      },
    );
    servers.push(server);
    const socket = proxy.connect("open");
    socket.write(`GET http://stream.test:4080/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    let answer = "";
    socket.on("data", (piece) => {
      answer += piece;
      if (answer.includes("first")) resolve();
      if (answer.includes("last")) socket.destroy();
    });
    await closed(socket);
    expect(answer).toContain("last");
  });

  test.each([
    [
      "a wrong token",
      `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: ${basic("wrong")}\r\n\r\n`,
      [407],
    ],
    [
      "a token of the same length",
      `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nProxy-Authorization: ${basic(token.replace("t", "T"))}\r\n\r\n`,
      [407],
    ],
    ["no token", "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", [407]],
    ["CONNECT without a token", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", [407]],
    ["a path alone", `GET / HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["an https URL", `GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["user information", `GET http://a.test@b.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["a backslash", `GET http://b.test\\@a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    [
      "two lengths",
      `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`,
      [400],
    ],
    [
      "a length and chunks",
      `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
      [400],
    ],
    [
      "another coding",
      `POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
      [501],
    ],
    ["a folded header", `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${auth}X: a\r\n b\r\n\r\n`, [400]],
    ["a bare line feed", `GET http://a.test/ HTTP/1.1\nHost: a.test\n\n`, [400]],
    [
      "long headers",
      `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: ${"x".repeat(40_000)}\r\n\r\n`,
      [431],
    ],
    ["garbage", "\x16\x03\x01 garbage\r\n\r\n", [400]],
    ["CONNECT without a port", `CONNECT a.test HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["CONNECT to port 0", `CONNECT a.test:0 HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["CONNECT to port 70000", `CONNECT a.test:70000 HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
    ["CONNECT with a path", `CONNECT a.test/x:80 HTTP/1.1\r\nHost: a.test\r\n${auth}\r\n`, [400]],
  ])("with %s are refused and reach nobody", async (_what, bytes, expected) => {
    seen = [];
    expect(statuses(await proxy.raw("list", bytes))).toEqual(expected);
    expect(seen).toEqual([]);
  });

  test("to servers that misbehave are answered in words, and end nothing else", async () => {
    const answers: Record<string, string> = {
      "/garbage": "nonsense\r\n\r\n",
      "/early": "",
      "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
      "/switch": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
      "/phrase": "HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n",
      "/zero": "HTTP/1.1 000 No\r\nContent-Length: 0\r\n\r\n",
      "/both": "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "/huge": `HTTP/1.1 200 OK\r\nX: ${"x".repeat(100_000)}\r\n\r\n`,
    };
    const server = createTcpServer((socket) => {
      socket.on("error", () => {});
      socket.once("data", (data) => socket.end(answers[String(data).split(" ")[1]!] ?? "", "latin1"));
    }).listen(4081, address);
    servers.push(server);
    const found: Record<string, unknown> = {};
    for (const path of Object.keys(answers)) {
      const { code, out } = await proxy.curl("open", `http://bad.test:4081${path}`);
      found[path] = code === 0 ? statuses(out)[0] : "cut";
    }
    expect(found).toEqual({
      ...{
        "/garbage": 502,
        "/early": 502,
        "/cut": "cut",
        "/switch": 502,
        "/phrase": 200,
        "/zero": 502,
        "/both": 502,
        "/huge": 502,
      },
    });
    expect((await proxy.curl("open", "http://nothing.test:4099/")).out).toContain(
      "cannot be reached on port 4099 (ECONNREFUSED)",
    );
  });
});

describe("addresses", () => {
  const own = Object.values(networkInterfaces()).flatMap((list) =>
    (list ?? []).map((one) => one.address.split("%")[0]!),
  );
  const private4 = [
    "127.0.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "127.1",
    "127.0.0.1.",
    "１２７.０.０.１",
  ];
  const private6 = [
    "[::1]",
    "[0:0:0:0:0:0:0:1]",
    "[::ffff:127.0.0.1]",
    "[::FFFF:7f00:1]",
    "[64:ff9b::7f00:1]",
    "[::]",
    "[::127.0.0.1]",
    "[fe80::1]",
  ];
  const metadata = [
    "169.254.169.254",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
    "[2002:7f00:1::]",
    "[64:ff9b:1::a00:1]",
  ];
  const others = [
    "0.0.0.0",
    "0",
    "10.0.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "224.0.0.1",
    "255.255.255.255",
    "198.18.0.1",
    "[ff02::1]",
  ];

  test("that are private, in any spelling, are refused for requests and tunnels", async () => {
    const hosts = [
      ...private4,
      ...private6,
      ...metadata,
      ...others,
      ...own.map((one) => (one.includes(":") ? `[${one}]` : one)),
    ];
    const found = await Promise.all(
      hosts.flatMap((host) => [
        proxy.raw("closed", Buffer.from(`GET http://${host}:80/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`)),
        proxy.raw("closed", Buffer.from(`CONNECT ${host}:80 HTTP/1.1\r\nHost: x\r\n${auth}\r\n`)),
      ]),
    );
    const all = found.flatMap(statuses);
    // Node's parser takes no letters outside of ASCII in a URL.
    expect(all.filter((status) => status !== 403 && status !== 400)).toEqual([]);
    expect(all).toHaveLength(2 * hosts.length);
    expect(all.filter((status) => status === 400).length).toBeLessThanOrEqual(2);
  });

  test("of names are looked up once, all checked, and only a checked one is connected to", async () => {
    seen = [];
    resolutions = [];
    // First what may be reached, then what may not: whoever asks twice is led elsewhere.
    const answers = [[elsewhere, address, "127.0.0.1"], [elsewhere]];
    addressesOf = async () => answers[Math.min(resolutions.length, 2) - 1]!;
    try {
      expect(statuses((await proxy.curl("open", "http://rebind.test/first", "-d", "x")).out)).toEqual([200]);
      expect(resolutions).toEqual(["rebind.test"]);
      const second = await proxy.curl("open", "http://rebind.test/second", "-d", "x");
      expect(second.out).toMatch(/^HTTP\/1\.1 403 rebind\.test .* private or reserved/);
      expect(
        (await proxy.proxy.decisions("open", { limit: 2 })).map((one) => [one.decision, one.address]),
      ).toEqual([
        ["refused", null],
        ["allowed", address],
      ]);
    } finally {
      addressesOf = async () => [address];
    }
  });

  test("that do not exist give an answer in words", async () => {
    addressesOf = async () => {
      throw Object.assign(new Error("no"), { code: "ENOTFOUND" });
    };
    expect((await proxy.curl("open", "http://no.test/")).out).toContain(
      "502 The host no.test does not exist.",
    );
    addressesOf = async () => [address];
  });
});

describe("an allowlist", () => {
  test("lets through what it names, and says which rule is missing", async () => {
    const first = async (...words: string[]) => (await proxy.curl("list", ...words)).out.split("\r\n")[0];
    expect(await first("http://a.test/")).toBe("HTTP/1.1 200 OK");
    expect(await first("http://x.y.WILD.test/")).toBe("HTTP/1.1 200 OK");
    expect(await first("http://wild.test/")).toContain("403 ");
    expect(await first("http://b.test/")).toContain(
      "403 The network policy of this sandbox allows no connection to b.test:80: it would need a rule",
    );
    expect(await first("http://a.test:81/")).toContain("it would need port 81 in the rule for a.test");
    expect(await first("http://read.test/")).toBe("HTTP/1.1 200 OK");
    expect(await first("http://read.test/", "-d", "x")).toContain("does not allow POST to read.test:80");
    expect(await first("http://xa.test/")).toContain("403 ");
    expect((await proxy.tunnel("list", "b.test:443")).status).toBe(403);
  });

  test("sees requests on port 80 of a tunnel, too", async () => {
    const { socket } = await proxy.tunnel("list", "read.test:80");
    socket.write("POST / HTTP/1.1\r\nHost: read.test\r\nContent-Length: 0\r\n\r\n");
    expect(String((await once(socket, "data"))[0])).toContain(
      "403 The network policy of this sandbox does not allow POST",
    );
    socket.write("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");
    expect(String((await once(socket, "data"))[0])).toContain("421 ");
    socket.destroy();
    const other = await proxy.tunnel("list", "a.test:80");
    other.socket.write("GET / HTTP/1.1\r\nHost: b.test\r\n\r\n");
    expect(String((await once(other.socket, "data"))[0])).toContain("421 ");
    other.socket.destroy();
  });

  test("passes TLS to the host of the tunnel, and none to another", async () => {
    const shake = async (servername: string) => {
      const { socket } = await proxy.tunnel("list", "a.test:443");
      const tls = connectTls({ socket, servername, ca: testAuthority, checkServerIdentity: () => undefined });
      const result = await Promise.race([
        once(tls, "secureConnect").then(() => "connected"),
        once(tls, "error").then(([error]) => error.code),
      ]).catch((error) => error.code);
      tls.destroy();
      return result;
    };
    expect(await shake("a.test")).toBe("connected");
    expect(await shake("A.Test")).toBe("connected");
    expect(await shake("")).toBe("connected");
    expect(await shake("b.test")).toMatch(/UNRECOGNIZED_NAME/);
    const [decision] = await proxy.proxy.decisions("list", { limit: 1 });
    expect(decision).toMatchObject({
      method: "CONNECT",
      host: "a.test",
      decision: "refused",
      reason: expect.stringContaining("b.test"),
    });
  });

  test("passes what is not TLS on other ports, servers that speak first included, but not on port 443", async () => {
    const greeter = createTcpServer({ allowHalfOpen: true }, (socket) => {
      socket.write("SSH-2.0-server\r\n");
      socket.pipe(socket);
    }).listen(22, address);
    servers.push(greeter);
    const { socket } = await proxy.tunnel("list", "a.test:22");
    expect(String((await once(socket, "data"))[0])).toBe("SSH-2.0-server\r\n");
    socket.end("SSH-2.0-client\r\n");
    expect(await text(socket)).toBe("SSH-2.0-client\r\n");
    const plain = await proxy.tunnel("list", "a.test:443");
    plain.socket.end("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    expect(await text(plain.socket)).toBe("");
    const [decision] = await proxy.proxy.decisions("list", { limit: 1 });
    expect(decision).toMatchObject({ decision: "refused", reason: "Port 443 is for TLS only." });
  });
});

describe("a look into TLS", () => {
  const bundle = () => {
    const [ca] = proxy.proxy.files({
      policy: { mode: "open", allow: [], credentials: [{ name: "A", hosts: ["a"], fromEnv: "A" }] },
    });
    return ["--cacert", join(proxy.dir, "ca.pem"), ca!.content] as const;
  };
  const curl = async (id: string, ...words: string[]) => {
    const [option, file, content] = bundle();
    writeFileSync(file, content);
    return proxy.curl(id, option, file, ...words);
  };
  const placeholder = () =>
    proxy.proxy.environment({
      id: "x",
      token,
      policy: {
        mode: "open",
        allow: [],
        credentials: [{ name: "TOKEN", hosts: ["a.test"], fromEnv: "THE_SECRET" }],
      },
    }).TOKEN!;

  test("puts a credential into headers for its hosts over TLS, and nowhere else", async () => {
    seen = [];
    await curl("credentials", "https://a.test/bearer", "-H", `Authorization: Bearer ${placeholder()}`);
    await curl("credentials", "https://a.test/basic", "-u", `user:${placeholder()}`);
    await curl("credentials", "https://a.test/own", "-H", `X-Api-Key: ${placeholder()}`);
    await curl("credentials", "http://a.test/plain", "-H", `Authorization: Bearer ${placeholder()}`);
    await curl(
      "credentials",
      "https://other.test:8443/other",
      "-H",
      `Authorization: Bearer ${placeholder()}`,
    );
    const value = (path: string) =>
      seen
        .find(({ line }) => line.endsWith(path))
        ?.headers.find((text) => /Bearer|Basic|s3cret|sandpiper_/.test(text));
    expect(value("/bearer")).toBe(`Bearer ${secret}`);
    expect(value("/basic")).toBe(basic(secret, "user"));
    expect(value("/own")).toBe(secret);
    expect(value("/plain")).toBe(`Bearer ${placeholder()}`);
    expect(value("/other")).toBe(`Bearer ${placeholder()}`);
  });

  test("takes a secret that comes back out of headers and body, and keeps it out of logs", async () => {
    const bearer = await curl(
      "credentials",
      "https://a.test/reflect",
      "-H",
      `Authorization: Bearer ${placeholder()}`,
      "--compressed",
    );
    const encoded = await curl("credentials", "https://a.test/reflect", "-u", `user:${placeholder()}`);
    expect(bearer.out).toContain(`before Bearer ${"*".repeat(secret.length)} after`);
    expect(bearer.out.match(/set-cookie/gi)).toHaveLength(2);
    const everything = [
      ...[
        bearer.out,
        encoded.out,
        JSON.stringify(await proxy.proxy.decisions("credentials", { limit: 1000 })),
        proxy.logged.join(),
      ],
      ...readdirSync(join(proxy.dir, "network", "decisions")).map((name) =>
        readFileSync(join(proxy.dir, "network", "decisions", name), "utf8"),
      ),
    ].join();
    expect(everything).not.toContain(secret);
    expect(everything).not.toContain(Buffer.from(`user:${secret}`).toString("base64"));
  });

  test("says that a secret is missing on the server", async () => {
    const rule = { name: "GONE", hosts: ["a.test"], fromEnv: "NO_SUCH_VARIABLE" };
    await proxy.attach("missing", { mode: "open", credentials: [rule] });
    const env = proxy.proxy.environment({
      id: "missing",
      token,
      policy: { mode: "open", allow: [], credentials: [rule] },
    });
    expect((await curl("missing", "https://a.test/")).out).toMatch(
      /^HTTP\/1\.1 200 Connection.*HTTP\/1\.1 200 OK/s,
    );
    expect(
      (await curl("missing", "https://a.test/", "-H", `Authorization: Bearer ${env.GONE}`)).out,
    ).toContain("set the server's environment variable NO_SUCH_VARIABLE");
  });

  test("keeps to the methods of a rule and to the host of the tunnel", async () => {
    expect((await curl("methods", "https://a.test/")).out).toContain("GET 0");
    expect((await curl("methods", "https://a.test/", "-d", "x")).out).toContain(
      "403 The network policy of this sandbox does not allow POST to a.test:443",
    );
    expect((await curl("methods", "https://a.test/", "-H", "Host: b.test")).out).toContain("421 ");
    expect((await curl("methods", "https://a.test/", "--request-target", "http://b.test/")).out).toContain(
      "400 ",
    );
    const { code } = await curl("methods", "https://a.test/", "--connect-to", "::b.test:443");
    expect(code).toBe(56);
  });

  test("verifies the server's certificate", async () => {
    servers.push(await serve(echo, { address: elsewhere, port: 443, host: "wrong.test" }));
    addressesOf = async () => [elsewhere];
    await proxy.attach("verify", { allow: [{ host: "a.test", ports: [443], methods: ["GET"] }] });
    const { out } = await curl("verify", "https://a.test/");
    addressesOf = async () => [address];
    expect(out).toMatch(/502 No secure connection to a\.test .*ERR_TLS_CERT_ALTNAME_INVALID/);
  });

  test("carries WebSockets", async () => {
    for (const id of ["methods", "credentials"]) {
      const { socket } = await proxy.tunnel(id, "ws.test:4443");
      const ca = id === "methods" ? bundle()[2] : testAuthority;
      const tls = connectTls({ socket, servername: "ws.test", ca });
      const client = new WebSocket("wss://ws.test:4443/", { createConnection: () => tls });
      await once(client, "open");
      client.send("hello");
      expect(String((await once(client, "message"))[0])).toBe("got hello");
      client.close();
      await once(client, "close");
    }
  });

  test("keeps its key to itself, and the same over restarts", async () => {
    const file = join(proxy.dir, "network", "authority.pem");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(bundle()[2]).not.toContain("PRIVATE");
    const { EgressProxy } = await import("./egress-proxy.ts");
    const logger = { debug() {}, info() {}, warn() {}, error() {} };
    const again = await EgressProxy.open({ dir: join(proxy.dir, "network"), logger });
    expect(
      again.files({
        policy: { mode: "open", allow: [], credentials: [{ name: "A", hosts: [], fromEnv: "A" }] },
      })[0]!.content,
    ).toBe(bundle()[2]);
    expect(again.files({ policy: { mode: "open", allow: [], credentials: [] } })).toEqual([]);
  });
});

describe("bounds", () => {
  test("detaching cuts everything at once and for good", async () => {
    await proxy.attach("gone", { mode: "open" });
    const idle = createTcpServer(() => {}).listen(4082, address);
    servers.push(idle);
    const { socket, status } = await proxy.tunnel("gone", "idle.test:4082");
    expect(status).toBe(200);
    const cut = closed(socket);
    proxy.proxy.detach("gone");
    await cut;
    const late = proxy.connect("gone");
    await closed(late);
    expect(late.bytesRead).toBe(0);
    await expect
      .poll(() => new Promise((resolve) => idle.getConnections((_error, count) => resolve(count))))
      .toBe(0);
  });

  test("connections beyond the bound are closed, and work goes on when others end", async () => {
    await proxy.attach("many", { mode: "open" });
    const all = Array.from({ length: 300 }, () => proxy.connect("many"));
    let refused = 0;
    for (const socket of all) socket.once("close", () => refused++);
    await expect.poll(() => refused).toBe(300 - 256);
    for (const socket of all) socket.destroy();
    await expect.poll(async () => (await proxy.curl("many", "http://a.test/")).code).toBe(0);
  });

  test("a flood of requests waits, and of those sent ahead there are few", async () => {
    await proxy.attach("flood", { mode: "allowlist" });
    const request = `GET http://no.test/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`;
    expect(statuses(await proxy.raw("flood", request.repeat(1000))).length).toBeLessThanOrEqual(12);
    await proxy.proxy.forget("flood");
    await proxy.attach("flood", { mode: "allowlist" });
    const begin = performance.now();
    const sockets = Array.from({ length: 100 }, () => proxy.connect("flood"));
    await Promise.all(
      sockets.map(async (socket) => {
        for (let round = 0; round < 6; round++) {
          socket.write(request);
          await once(socket, "data");
        }
        socket.destroy();
      }),
    );
    // 600 requests: 400 at once, the others at 200 a second.
    expect(performance.now() - begin).toBeGreaterThan(800);
    const decisions = await proxy.proxy.decisions("flood", { limit: 10_000 });
    expect(decisions).toHaveLength(600);
    await proxy.proxy.forget("flood");
    expect(
      readdirSync(join(proxy.dir, "network", "decisions")).filter((name) => name.startsWith("flood")),
    ).toEqual([]);
  });

  test("400 MB pass with bounded memory, at the pace of the reader", async () => {
    const total = 400 * 2 ** 20;
    const piece = Buffer.alloc(2 ** 20, 7);
    let sent = 0;
    const server: Server = await serve(
      (_request, response) => {
        const more = () => {
          while (sent < total) {
            sent += piece.length;
            if (!response.write(piece)) return void response.once("drain", more);
          }
          response.end();
        };
        more();
      },
      { address, port: 4083 },
    );
    servers.push(server);
    const socket = proxy.connect("open");
    socket.pause();
    socket.write(`GET http://big.test:4083/ HTTP/1.1\r\nHost: x\r\n${auth}\r\n`);
    await expect.poll(() => sent).toBeGreaterThan(0);
    let before = -1;
    while (before !== sent) {
      before = sent;
      await delay(200);
    }
    expect(sent).toBeLessThan(20 * 2 ** 20);
    const idle = process.memoryUsage().rss;
    let most = 0;
    let got = 0;
    socket.on("data", (data) => {
      got += data.length;
      most = Math.max(most, process.memoryUsage().rss);
      if (got > total) socket.destroy();
    });
    socket.resume();
    await closed(socket);
    // Server, proxy and client share this process, and buffers wait for the collector.
    expect(most - idle).toBeLessThan(200 * 2 ** 20);
    expect(proxy.proxy.lastTraffic("open")).toBeGreaterThan(Date.now() - 10_000);
  });
});
