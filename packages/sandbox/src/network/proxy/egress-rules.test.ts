import { once } from "node:events";
import { createServer as createTcpServer } from "node:net";
import { networkInterfaces } from "node:os";
import { text } from "node:stream/consumers";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  basic,
  ownAddress,
  recordRequests,
  type SeenRequest,
  serve,
  TestProxy,
  testAuthority,
  token,
} from "../../../test/support/egress.ts";

const address = ownAddress();
const elsewhere = ownAddress();
let resolutions: string[] = [];
let addressesOf = async (_host: string): Promise<string[]> => [address];
let proxy: TestProxy;
const servers: { close(): unknown }[] = [];
/** Requests that reached a server. */
const seen: SeenRequest[] = [];
const echo = recordRequests(seen);

beforeAll(async () => {
  proxy = await TestProxy.open({
    resolve: (host) => {
      resolutions.push(host);
      return addressesOf(host);
    },
  });
  servers.push(
    await serve(echo, { address, port: 80 }),
    await serve(echo, { address, port: 443, host: "a.test" }),
    await serve(echo, { address: elsewhere, port: 80 }),
  );
  await proxy.attach("list", {
    allow: [
      { host: "a.test", ports: [80, 443, 22], methods: null },
      { host: "*.wild.test", ports: [80], methods: null },
      { host: "read.test", ports: [80, 443], methods: ["GET"] },
    ],
  });
  await proxy.attach("open", { mode: "open", private: [`${address}/32`] });
  await proxy.attach("closed", { mode: "open", private: [] });
});
afterAll(async () => {
  await proxy.close();
  for (const server of servers) server.close();
});

/** The status of each answer in a stream of them. */
const statuses = (answer: string) =>
  [...answer.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status));
const auth = `Proxy-Authorization: ${basic(token)}\r\n`;

describe("a destination", () => {
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

  test("that is a private address, in any spelling, is refused for requests and tunnels", async () => {
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

  test("that is a name is looked up once; all its addresses are checked and only a checked one is used", async () => {
    seen.length = 0;
    resolutions = [];
    // The first lookup includes an allowed address, later lookups only a private one.
    const answers = [[elsewhere, address, "127.0.0.1"], [elsewhere]];
    addressesOf = async () => answers[Math.min(resolutions.length, 2) - 1]!;
    try {
      expect(statuses((await proxy.curl("open", "http://rebind.test/first", "-d", "x")).out)).toEqual([200]);
      expect(resolutions).toEqual(["rebind.test"]);
      const second = await proxy.curl("open", "http://rebind.test/second", "-d", "x");
      // The refusal names what the sandbox asked for; the address is of the operator's network.
      expect(second.out).toMatch(/^HTTP\/1\.1 403 rebind\.test:80 is a private or reserved address: /);
      expect(second.out).not.toContain(elsewhere);
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

  test("that does not exist gets a readable error", async () => {
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
  test("allows the listed hosts, and refusals name the missing rule", async () => {
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

  test("reports what was refused or failed, completely and once, to those who watch", async () => {
    const long = `${"a".repeat(60)}.${"b".repeat(60)}.${"c".repeat(60)}.${"d".repeat(60)}.test`;
    const endWatch = proxy.proxy.watchProblems("list");
    const needed = (host: string) =>
      `The network policy of this sandbox allows no connection to ${host}:443: it would need a rule for ${host}:443, such as "${host}:443" in network.allow.`;
    for (const host of ["b.test", "b.test", long])
      expect((await proxy.tunnel("list", `${host}:443`)).status).toBe(403);
    const { err } = await proxy.curl("list", "-v", `https://${long}/`);
    expect(err).toContain(needed(long));
    addressesOf = async () => [];
    await proxy.curl("list", "http://gone.wild.test/");
    addressesOf = async () => [address];
    await proxy.curl("list", "http://a.test/");
    expect(endWatch()).toEqual([
      { host: "b.test", refused: true, sentence: needed("b.test") },
      { host: long, refused: true, sentence: needed(long) },
      { host: "gone.wild.test", refused: false, sentence: "The host gone.wild.test does not exist." },
    ]);
    await proxy.tunnel("list", "c.test:443");
    expect(endWatch()).toHaveLength(3);
    expect(proxy.proxy.watchProblems("unknown")()).toEqual([]);
  });

  test("also applies to requests in a tunnel to port 80", async () => {
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

  test("allows TLS to the tunnel's host only", async () => {
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

  test("allows protocols other than TLS on other ports, also when the server speaks first, but not on port 443", async () => {
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
