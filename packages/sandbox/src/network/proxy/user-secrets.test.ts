import { once } from "node:events";
import type { RequestListener, Server } from "node:http";
import { createServer } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { ownAddress, policyOf, serve, TestProxy } from "../../../test/support/egress.ts";
import { openTestDriver, run, testSpec } from "../../../test/support/oci.ts";
import type { NetworkPolicy } from "../../driver.ts";
import type { OciDriver } from "../../drivers/oci/oci-driver.ts";
import { egressToken } from "../environment.ts";
import { withRepositoryHost } from "../policy/repository-rule.ts";
import type { SandboxSecret } from "../sandbox-secret.ts";

/** Secrets of a user in requests of real sandboxes. */

const address = ownAddress();
const secret = "the-value-of-the-user's-secret-é";
let driver: OciDriver;
let end: () => Promise<void>;
let proxy: TestProxy;
const servers: Server[] = [];
/** The user's secrets, as `forSandbox` returns them. */
let stored: SandboxSecret[];
let withheld: string | undefined;
/** Holds each look-up of the secrets. */
let held: Promise<void> | undefined;
/** Authorization headers as the server got them, by path. */
const seen = new Map<string, string | undefined>();

const own = (change: Partial<SandboxSecret> = {}): SandboxSecret => ({
  name: "API_TOKEN",
  variable: "API_TOKEN",
  description: null,
  hosts: null,
  value: secret,
  ...change,
});

const listener: RequestListener = (request, response) => {
  const header = request.headers.authorization;
  seen.set(request.url!, header && Buffer.from(header, "latin1").toString());
  response.setHeader("x-id", "121");
  response.end(`you sent ${header && Buffer.from(header, "latin1").toString()}\n`);
};

const web = { host: "*.test", ports: [80, 443, 8443], methods: null };

function sandboxOf(id: string, change: Partial<NetworkPolicy>) {
  const sandbox = { id, userId: "ann", policy: policyOf(change), token: egressToken(`session key of ${id}`) };
  return { ...sandbox, policy: proxy.proxy.startPolicy(sandbox) };
}

/** Starts a sandbox and lets it out, as the service does. */
async function start(id: string, change: Partial<NetworkPolicy>): Promise<void> {
  const sandbox = sandboxOf(id, change);
  const { policy } = sandbox;
  const env = { ...(await proxy.proxy.environment(sandbox)), ...testSpec.env };
  await driver.start({
    id,
    spec: { ...testSpec, env, network: policy },
    files: proxy.proxy.files({ policy }),
  });
  await proxy.proxy.attach(sandbox, (port, accept) => driver.listen(id, port, accept));
}

const bearer = (url: string) => `curl -sS -m 10 -H "Authorization: Bearer $API_TOKEN" ${url}`;

beforeAll(async () => {
  const secrets = {
    forSandbox: async (userId: string) => {
      await held;
      return userId === "ann" ? stored : [];
    },
    withheld: async () => withheld,
  };
  proxy = await TestProxy.open({ env: {}, resolve: async () => [address], secrets });
  ({ driver, end } = await openTestDriver());
  servers.push(
    await serve(listener, { address, port: 80 }),
    await serve(listener, { address, port: 443, host: "a.test" }),
  );
  servers.push(await serve(listener, { address, port: 8443, host: "b.test" }));
  stored = [own()];
  await Promise.all([start("listed", { allow: [web] }), start("open", { mode: "open" })]);
});
beforeEach(() => {
  stored = [own()];
  withheld = undefined;
  held = undefined;
  seen.clear();
});
afterAll(async () => {
  await proxy.close();
  await end();
  for (const server of servers) server.close();
});

test("a secret reaches an allowed host over TLS, and the sandbox sees only its placeholder", async () => {
  const { out } = await run(driver, "listed", bearer("https://a.test/one"));
  expect(seen.get("/one")).toBe(`Bearer ${secret}`);
  expect(out).toMatch(/^you sent Bearer \*+\n$/);
  expect((await run(driver, "listed", "env; cat /proc/*/environ")).out).toMatch(
    /API_TOKEN=sandpiper_[0-9a-f]{40}/,
  );
  expect((await run(driver, "listed", "env; cat /proc/*/environ")).out).not.toContain(secret);
  await run(driver, "listed", "curl -sS -u me:$API_TOKEN https://a.test/basic");
  expect(seen.get("/basic")).toBe(`Basic ${Buffer.from(`me:${secret}`).toString("base64")}`);
});

test("a new value is used by the next request, and a removed secret is not sent any more", async () => {
  stored = [own({ value: "another-value" })];
  await run(driver, "listed", bearer("https://a.test/rotated"));
  expect(seen.get("/rotated")).toBe("Bearer another-value");
  stored = [];
  await run(driver, "listed", bearer("-k https://a.test/removed"));
  expect(seen.get("/removed")).toMatch(/^Bearer sandpiper_/);
});

test("a withheld secret is refused with the reason, also for other variables, until it is given again", async () => {
  withheld = "The repository was not accepted.";
  const { out } = await run(driver, "listed", `${bearer("https://a.test/kept")} -i`);
  expect(out).toMatch(/HTTP\/1\.1 403 The repository was not accepted\./);
  await run(driver, "listed", "curl -sS -u me:$API_TOKEN https://a.test/kept");
  expect(seen.has("/kept")).toBe(false);
  await run(driver, "listed", "curl -sS https://a.test/none");
  expect(seen.has("/none")).toBe(true);
  withheld = undefined;
  await run(driver, "listed", bearer("https://a.test/given"));
  expect(seen.get("/given")).toBe(`Bearer ${secret}`);
});

test("a request whose sender leaves while the secrets are looked up is not forwarded", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  held = promise;
  const { err } = await run(driver, "listed", "curl -sS -m 1 http://a.test/left");
  expect(err).toContain("timed out");
  resolve();
  await expect
    .poll(async () => (await proxy.proxy.decisions("listed", { limit: 1 }))[0])
    .toMatchObject({ method: "GET", address: null, reason: "The sandbox closed the connection." });
  expect(seen.has("/left")).toBe(false);
});

test("a secret is not sent over plain HTTP, to ports other than HTTPS, or to other hosts", async () => {
  await run(driver, "listed", bearer("http://a.test/plain"));
  await run(driver, "listed", bearer("-k https://b.test:8443/port"));
  stored = [own({ hosts: ["other.test"] })];
  await run(driver, "listed", bearer("-k https://a.test/host"));
  for (const path of ["/plain", "/port", "/host"]) expect(seen.get(path)).toMatch(/^Bearer sandpiper_/);
  stored = [own({ hosts: ["b.test"] })];
  await run(driver, "listed", bearer("https://b.test:8443/named"));
  expect(seen.get("/named")).toBe(`Bearer ${secret}`);
});

test("in an open network a secret is sent to its listed hosts, and nowhere when it lists none", async () => {
  await run(driver, "open", bearer("-k https://a.test/unnamed"));
  expect(seen.get("/unnamed")).toMatch(/^Bearer sandpiper_/);
  stored = [own({ hosts: ["a.test"] })];
  await run(driver, "open", bearer("https://a.test/named"));
  expect(seen.get("/named")).toBe(`Bearer ${secret}`);
});

test("another user's sandbox cannot use a secret, even with its placeholder", async () => {
  const { API_TOKEN } = await proxy.proxy.environment(sandboxOf("listed", { allow: [web] }));
  const sandbox = { ...sandboxOf("listed", { allow: [web] }), userId: "bob" };
  expect(await proxy.proxy.environment(sandbox)).not.toHaveProperty("API_TOKEN");
  await proxy.attach("bobs", { allow: [web] });
  await proxy.curl("bobs", "-k", "-H", `Authorization: Bearer ${API_TOKEN}`, "https://a.test/bob");
  expect(seen.get("/bob")).toBe(`Bearer ${API_TOKEN}`);
});

test("traffic other than TLS to a secret's host passes unchanged", async () => {
  const ssh = createServer((socket) =>
    socket.on("error", () => {}).on("data", (bytes) => socket.write(`SSH-2.0-test ${bytes}`)),
  );
  await once(ssh.listen(2222, address), "listening");
  await proxy.attach("tunnels", {
    mode: "open",
    credentials: [{ name: "X", hosts: ["a.test"], fromEnv: "X" }],
  });
  const { socket } = await proxy.tunnel("tunnels", "a.test:2222");
  socket.write("SSH-2.0-client\r\n");
  expect(String((await once(socket, "data"))[0])).toBe("SSH-2.0-test SSH-2.0-client\r\n");
  socket.destroy();
  ssh.close();
});

test("secrets that do not fit into a header are refused with an error, and short ones are not masked", async () => {
  stored = [own({ value: "one\nX-Injected: two" })];
  expect((await run(driver, "listed", bearer("https://a.test/lines"))).out).toContain("several lines");
  expect(seen.has("/lines")).toBe(false);
  stored = [own({ value: "1" })];
  expect((await run(driver, "listed", "curl -sSi https://a.test/short")).out).toMatch(/^x-id: 121\r$/m);
});

test("traffic of processes without the certificate is not intercepted, and a later secret works in new ones", async () => {
  stored = [];
  await start("bare", { allow: [web] });
  stored = [own()];
  await run(driver, "bare", "curl -sSk -H 'Authorization: Bearer x' https://a.test/bare");
  // Written as the tunnel ends, which may be after curl has.
  await expect
    .poll(async () => (await proxy.proxy.decisions("bare", { limit: 1 }))[0])
    .toMatchObject({ method: "CONNECT", host: "a.test" });
  const added = await proxy.proxy.secretEnvironment(sandboxOf("bare", { allow: [web] }));
  const variables = Object.entries(added).map(([name, text]) => `export ${name}='${text}'`);
  await run(driver, "bare", [...variables, bearer("https://a.test/later")].join("; "));
  expect(seen.get("/later")).toBe(`Bearer ${secret}`);
  // The server could return what it was sent, and a host of a named secret could return that.
  const returned = `curl -sSk -H "Authorization: ${secret}" https://a.test/returned`;
  expect((await run(driver, "bare", returned)).out).not.toContain(secret);
  stored = [];
  await start("named", { allow: [web] });
  stored = [own({ hosts: ["a.test"] })];
  expect((await run(driver, "named", returned)).out).not.toContain(secret);
});

test("a repository's host is added to the allowlist once, unless the network is off", () => {
  const policy = policyOf({ allow: [{ host: "git.test", ports: [443], methods: null }] });
  expect(withRepositoryHost(policy, "git.test").allow).toEqual(policy.allow);
  expect(withRepositoryHost(policy, "Other.test:8443").allow[1]).toEqual({
    host: "other.test",
    ports: [8443],
    methods: null,
  });
  expect(withRepositoryHost(policyOf({ mode: "none" }), "git.test")).toEqual({ mode: "none", allow: [] });
});
