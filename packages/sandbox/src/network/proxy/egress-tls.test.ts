import { once } from "node:events";
import { readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
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
const secret = "s3cret-of-the-server-0123456789";
let addressesOf = async (_host: string): Promise<string[]> => [address];
let proxy: TestProxy;
const servers: { close(): unknown }[] = [];
/** Requests that reached a server. */
const seen: SeenRequest[] = [];
const echo = recordRequests(seen);

beforeAll(async () => {
  proxy = await TestProxy.open({
    env: { THE_SECRET: secret, ANOTHER_SECRET: "another-secret" },
    resolve: (host) => addressesOf(host),
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
  );
  const credentials = [
    { name: "TOKEN", hosts: ["a.test"], fromEnv: "THE_SECRET" },
    { name: "OTHER", hosts: ["other.test"], fromEnv: "ANOTHER_SECRET" },
  ];
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

describe("TLS interception", () => {
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
  const placeholder = async () => {
    const { TOKEN } = await proxy.proxy.environment({
      id: "x",
      token,
      policy: {
        mode: "open",
        allow: [],
        credentials: [{ name: "TOKEN", hosts: ["a.test"], fromEnv: "THE_SECRET" }],
      },
    });
    return TOKEN!;
  };

  test("adds a credential to headers only for its hosts over TLS", async () => {
    seen.length = 0;
    await curl("credentials", "https://a.test/bearer", "-H", `Authorization: Bearer ${await placeholder()}`);
    await curl("credentials", "https://a.test/basic", "-u", `user:${await placeholder()}`);
    await curl("credentials", "https://a.test/own", "-H", `X-Api-Key: ${await placeholder()}`);
    await curl("credentials", "http://a.test/plain", "-H", `Authorization: Bearer ${await placeholder()}`);
    await curl(
      "credentials",
      "https://other.test:8443/other",
      "-H",
      `Authorization: Bearer ${await placeholder()}`,
    );
    const value = (path: string) =>
      seen
        .find(({ line }) => line.endsWith(path))
        ?.headers.find((text) => /Bearer|Basic|s3cret|sandpiper_/.test(text));
    expect(value("/bearer")).toBe(`Bearer ${secret}`);
    expect(value("/basic")).toBe(basic(secret, "user"));
    expect(value("/own")).toBe(secret);
    expect(value("/plain")).toBe(`Bearer ${await placeholder()}`);
    expect(value("/other")).toBe(`Bearer ${await placeholder()}`);
  });

  test("masks an echoed secret in response headers and bodies, and does not log it", async () => {
    const bearer = await curl(
      "credentials",
      "https://a.test/reflect",
      "-H",
      `Authorization: Bearer ${await placeholder()}`,
      "--compressed",
    );
    const encoded = await curl("credentials", "https://a.test/reflect", "-u", `user:${await placeholder()}`);
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

  test("reports that a secret is missing on the server", async () => {
    const rule = { name: "GONE", hosts: ["a.test"], fromEnv: "NO_SUCH_VARIABLE" };
    await proxy.attach("missing", { mode: "open", credentials: [rule] });
    const env = await proxy.proxy.environment({
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

  test("enforces a rule's methods and the tunnel's host", async () => {
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

  test("supports WebSockets", async () => {
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

  test("does not expose its key, and reuses it after restarts", async () => {
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
