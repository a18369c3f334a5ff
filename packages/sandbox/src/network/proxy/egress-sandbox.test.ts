import { execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { RequestListener, Server } from "node:http";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ownAddress, policyOf, serve, TestProxy } from "../../../test/support/egress.ts";
import { openTestDriver, run, testSpec } from "../../../test/support/oci.ts";
import type { NetworkPolicy } from "../../driver.ts";
import type { OciDriver } from "../../drivers/oci/oci-driver.ts";
import { egressToken } from "../environment.ts";

/** The programs of users in real sandboxes, each against a small real server. */

const address = ownAddress();
const secret = "git-password-of-the-server";
let driver: OciDriver;
let end: () => Promise<void>;
let proxy: TestProxy;
let folder: string;
const servers: Server[] = [];

/** Starts a sandbox and lets it out, as the service does. */
async function start(id: string, change: Partial<NetworkPolicy>): Promise<void> {
  const policy = policyOf(change);
  const sandbox = { id, policy, token: egressToken(`session key of ${id}`) };
  const env = await proxy.proxy.environment(sandbox);
  const files = proxy.proxy.files({ policy });
  await driver.start({ id, spec: { ...testSpec, env: { ...env, ...testSpec.env }, network: policy }, files });
  await proxy.proxy.attach(sandbox, (port, accept) => driver.listen(id, port, accept));
}

const git: RequestListener = (request, response) => {
  const user = Buffer.from((request.headers.authorization ?? "").replace("Basic ", ""), "base64").toString();
  if (user !== `user:${secret}`)
    return void response.writeHead(401, { "www-authenticate": 'Basic realm="git"' }).end();
  const [path, query = ""] = request.url!.split("?");
  const backend = spawn("git", ["http-backend"], {
    env: {
      ...{
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: "1",
        PATH_INFO: path,
        QUERY_STRING: query,
      },
      ...{
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: request.headers["content-type"] ?? "",
        REMOTE_USER: "user",
      },
      ...{
        HTTP_CONTENT_ENCODING: String(request.headers["content-encoding"] ?? ""),
        GIT_PROTOCOL: String(request.headers["git-protocol"] ?? ""),
      },
    },
  });
  request.pipe(backend.stdin);
  const chunks: Buffer[] = [];
  backend.stdout.on("data", (piece) => chunks.push(piece));
  backend.on("close", () => {
    const whole = Buffer.concat(chunks);
    const split = whole.indexOf("\r\n\r\n");
    const headers = whole.subarray(0, split).toString().split("\r\n");
    for (const line of headers) response.setHeader(line.split(": ")[0]!, line.split(": ")[1]!);
    response.statusCode = Number(/^Status: (\d+)/m.exec(headers.join("\n"))?.[1] ?? 200);
    response.end(whole.subarray(split + 4));
  });
};

/** Files below a folder, as a plain web server has them. */
const files: RequestListener = (request, response) => {
  try {
    const { pathname } = new URL(request.url!, "http://x");
    response.setHeader("content-type", pathname.endsWith("/") ? "text/html" : "application/octet-stream");
    response.end(readFileSync(join(folder, pathname.endsWith("/") ? `${pathname}index.html` : pathname)));
  } catch {
    response.writeHead(404).end();
  }
};

const sh = (script: string) =>
  execFileSync("sh", ["-euc", script], {
    cwd: folder,
    stdio: "pipe",
    env: { PATH: process.env.PATH, HOME: folder },
  });

beforeAll(async () => {
  folder = mkdtempSync("/tmp/sandpiper-test-");
  proxy = await TestProxy.open({ env: { GIT_SECRET: secret }, resolve: async () => [address] });
  ({ driver, end } = await openTestDriver());
  servers.push(
    await serve(files, { address, port: 80 }),
    await serve(git, { address, port: 443, host: "git.test" }),
  );
  servers.push(await serve(files, { address, port: 8443, host: "files.test" }));
  sh(`mkdir work && cd work && git init -q . && echo content >file && git add . && git -c user.name=a -c user.email=a@b commit -qm one
cd .. && git clone -q --bare work project.git && git -C project.git config http.receivepack true`);
  await Promise.all([
    start("none", { mode: "none" }),
    start("one", { allow: [{ host: "*.test", ports: [80, 8443], methods: null }] }),
    start("two", {
      allow: [{ host: "git.test", ports: [443], methods: null }],
      credentials: [{ name: "GIT_TOKEN", hosts: ["git.test"], fromEnv: "GIT_SECRET" }],
    }),
  ]);
});
afterAll(async () => {
  await proxy.close();
  await end();
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("a sandbox with an allowlist", () => {
  test("reaches only the allowed hosts with curl, over HTTP and TLS", async () => {
    writeFileSync(join(folder, "hello"), "hello");
    expect(await run(driver, "one", "curl -sS http://files.test/hello")).toEqual({
      code: 0,
      out: "hello",
      err: "",
    });
    expect(await run(driver, "one", "curl -sSk https://files.test:8443/hello")).toEqual({
      code: 0,
      out: "hello",
      err: "",
    });
    expect(await run(driver, "one", "curl -sS http://other.example/")).toMatchObject({
      out: expect.stringContaining("it would need a rule"),
    });
    expect(await run(driver, "one", "curl -sS https://other.example/")).toMatchObject({
      code: 56,
      err: expect.stringContaining("403"),
    });
    expect(await run(driver, "one", `curl -sS -m 2 --noproxy '*' http://${address}/hello`)).toMatchObject({
      code: 7,
    });
    expect(
      (await run(driver, "one", "curl -sS -x http://sandbox:wrong@127.0.0.1:3128 http://files.test/hello"))
        .out,
    ).toContain("token");
  });

  test("reaches neither metadata, the host's loopback, nor another sandbox through the proxy", async () => {
    const port = (proxy.ports.get("one") ?? 22).toString();
    for (const host of [
      "169.254.169.254",
      "127.0.0.1",
      "localhost",
      "[::1]",
      `127.0.0.1:${port}`,
      "127.0.0.1:3128",
    ]) {
      const { out } = await run(
        driver,
        "one",
        `curl -sS -o /dev/null -w '%{http_code} %{http_connect}' --noproxy '' -x "$http_proxy" http://${host}/ -p 2>/dev/null`,
      );
      expect(out).toMatch(/^000 403$/);
    }
  });

  test("installs packages with pip, npm and apt", async () => {
    packages();
    const pip =
      "python3 -m pip --disable-pip-version-check --no-cache-dir download -q --no-deps -d /tmp/pip --trusted-host files.test -i http://files.test/simple/ tiny";
    expect(await run(driver, "one", `${pip} && ls /tmp/pip`)).toMatchObject({
      code: 0,
      out: "tiny-1.0-py3-none-any.whl\n",
    });
    const npm =
      "mkdir -p /tmp/npm && cd /tmp/npm && npm install --registry http://files.test/npm/ --no-audit --no-fund tiny && cat node_modules/tiny/index.js";
    expect(await run(driver, "one", npm)).toMatchObject({
      code: 0,
      out: expect.stringContaining("module.exports = 1"),
    });
    const apt = `mkdir -p /tmp/apt/lists/partial /tmp/apt/cache && echo 'deb [trusted=yes] http://files.test/apt/ ./' >/tmp/apt/list
apt-get -o Dir::Etc::sourcelist=/tmp/apt/list -o Dir::Etc::sourceparts=- -o Dir::State::Lists=/tmp/apt/lists -o Dir::Cache=/tmp/apt/cache \
 -o APT::Sandbox::User= -o Debug::NoLocking=1 -o Dir::State::status=/dev/null update && cat /tmp/apt/lists/*Packages`;
    expect(await run(driver, "one", apt)).toMatchObject({
      code: 0,
      out: expect.stringContaining("Package: tiny"),
    });
  });
});

test("a sandbox clones and pushes with git and never sees the credential", async () => {
  const script = `env | grep -c "$GIT_TOKEN"; git clone -q "https://user:$GIT_TOKEN@git.test/project.git" /tmp/project && cd /tmp/project && cat file &&
echo more >>file && git -c user.name=a -c user.email=a@b commit -qam two && git push -q origin HEAD && git ls-remote origin HEAD | cut -f2`;
  expect(await run(driver, "two", script)).toMatchObject({ code: 0, out: "1\ncontent\nHEAD\n" });
  expect(
    (await run(driver, "two", `cat /proc/*/environ; env; cat ~/.git-credentials /tmp/project/.git/config`))
      .out,
  ).not.toContain(secret);
  expect(sh("git -C project.git log --format=%s").toString()).toBe("two\none\n");
  const decisions = await proxy.proxy.decisions("two", { limit: 100 });
  expect(
    decisions.every(
      (one) => one.decision === "allowed" && one.host === "git.test" && one.address === address,
    ),
  ).toBe(true);
});

test("a sandbox without network has no proxy", async () => {
  expect(await run(driver, "none", "env | grep -ic proxy; exec 3<>/dev/tcp/127.0.0.1/3128")).toMatchObject({
    out: "0\n",
  });
  expect(
    (await run(driver, "none", { argv: ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/3128"] })).err,
  ).toContain("refused");
});

test("a sandbox's egress continues after a stop and ends with the sandbox", async () => {
  await start("three", { allow: [{ host: "files.test", ports: [80], methods: null }] });
  writeFileSync(join(folder, "hello"), "hello");
  expect((await run(driver, "three", "curl -sS http://files.test/hello")).out).toBe("hello");
  proxy.proxy.detach("three");
  expect((await run(driver, "three", "curl -sS http://files.test/hello")).code).toBe(7);
  await driver.remove("three");
  await proxy.proxy.forget("three");
});

/** A wheel, an npm package and a Debian repository of the same name. */
function packages(): void {
  sh(`python3 - <<'END'
import os, zipfile
os.makedirs("simple/tiny", exist_ok=True)
with zipfile.ZipFile("simple/tiny/tiny-1.0-py3-none-any.whl", "w") as z:
  z.writestr("tiny.py", "x = 1\\n")
  z.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
  z.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: x\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
  z.writestr("tiny-1.0.dist-info/RECORD", "")
open("simple/tiny/index.html", "w").write('<a href="tiny-1.0-py3-none-any.whl">tiny-1.0-py3-none-any.whl</a>')
END
mkdir -p npm package apt && echo 'module.exports = 1' >package/index.js && echo '{"name":"tiny","version":"1.0.0"}' >package/package.json && tar czf npm/tiny.tgz package
printf 'Package: tiny\\nVersion: 1.0\\nArchitecture: all\\nMaintainer: a <a@b>\\nFilename: tiny.deb\\nSize: 1\\nSHA256: %064d\\nDescription: x\\n' 0 >apt/Packages`);
  const integrity = `sha512-${createHash("sha512")
    .update(readFileSync(join(folder, "npm/tiny.tgz")))
    .digest("base64")}`;
  const dist = { tarball: "http://files.test/npm/tiny.tgz", integrity };
  const versions = { "1.0.0": { name: "tiny", version: "1.0.0", dist } };
  writeFileSync(
    join(folder, "npm/tiny"),
    JSON.stringify({ name: "tiny", "dist-tags": { latest: "1.0.0" }, versions }),
  );
  const sum = createHash("sha256")
    .update(readFileSync(join(folder, "apt/Packages")))
    .digest("hex");
  writeFileSync(
    join(folder, "apt/Release"),
    `Suite: x\nSHA256:\n ${sum} ${readFileSync(join(folder, "apt/Packages")).length} Packages\n`,
  );
}
