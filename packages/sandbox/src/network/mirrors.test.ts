import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ownAddress, policyOf, portOf, serve, TestProxy } from "../../test/support/egress.ts";
import { openTestDriver, run, testSpec } from "../../test/support/oci.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import { mirrorKinds, parseMirrors, toMirrorConfig } from "../specs/package-sources/mirrors.ts";
import { egressToken } from "./environment.ts";

/** A mirror at a private address, as sandboxes use it. */

const address = ownAddress();
let mirror: Server;
let proxy: TestProxy;
let driver: OciDriver;
let end: () => Promise<void>;
let archive: Record<string, Buffer> = {};

/** The files of an apt archive with the package `thing`. */
function makeArchive(path: string): Record<string, Buffer> {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-archive-"));
  try {
    const control = join(folder, "thing/DEBIAN/control");
    mkdirSync(join(control, ".."), { recursive: true });
    const fields =
      "Package: thing\nVersion: 1.2.3\nArchitecture: all\nMaintainer: Ann <ann@example.com>\nDescription: a thing\n";
    writeFileSync(control, fields);
    execFileSync("dpkg-deb", ["--build", join(folder, "thing"), join(folder, "thing.deb")]);
    const deb = readFileSync(join(folder, "thing.deb"));
    const sum = createHash("sha256").update(deb).digest("hex");
    const entry = `${fields}Filename: ./thing.deb\nSize: ${deb.length}\nSHA256: ${sum}\n`;
    return { [`${path}/./Packages`]: Buffer.from(entry), [`${path}/./thing.deb`]: deb };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

beforeAll(async () => {
  mirror = await serve(
    (request, response) => {
      const file = archive[request.url!];
      if (file) return response.end(file);
      if (request.url!.includes("/./")) return response.writeHead(404).end();
      if (request.url !== "/npm/thing") return response.end(`mirror ${request.url}`);
      const dist = { tarball: "http://mirror.lan/x.tgz", shasum: "0".repeat(40) };
      const versions = { "1.2.3": { name: "thing", version: "1.2.3", dist } };
      response.end(JSON.stringify({ name: "thing", "dist-tags": { latest: "1.2.3" }, versions }));
    },
    { address },
  );
  const base = `http://mirror.lan:${portOf(mirror)}`;
  const { rules, env, files, redirects } = toMirrorConfig(
    parseMirrors(mirrorKinds.map((one) => `${one}=${base}/${one}`).join())!,
  );
  archive = makeArchive("/debian");
  proxy = await TestProxy.open({ env: {}, resolve: async () => [address], files, redirects });
  ({ driver, end } = await openTestDriver());
  const other = { host: "inside.lan", ports: [portOf(mirror)], methods: null };
  const policy = policyOf({ allow: [...rules, other], private: [] });
  const sandbox = { id: "one", userId: "ann", policy, token: egressToken("key") };
  const all = { ...(await proxy.proxy.environment(sandbox)), ...env, ...testSpec.env };
  await driver.start({
    ...{ id: "one", spec: { ...testSpec, env: all, network: policy } },
    files: proxy.proxy.files({ policy }),
  });
  await proxy.proxy.attach(sandbox, (port, accept) => driver.listen("one", port, accept));
});
afterAll(async () => {
  await proxy.close();
  await end();
  mirror.close();
});

test("package managers find the mirror, which may have a private address, and nothing else may", async () => {
  const sh = async (command: string) => (await run(driver, "one", command)).out;
  for (const variable of ["PIP_INDEX_URL", "GOPROXY", "BUNDLE_MIRROR__ALL"])
    expect(await sh(`curl -sS "$${variable}/x"`)).toMatch(/^mirror \/\w+\/x$/);
  expect(await sh("npm view thing version")).toBe("1.2.3\n");
  expect(await sh("cat /.cargo/config.toml")).toMatch(
    /registry = "sparse\+http:\/\/mirror\.lan:\d+\/cargo\/"/,
  );
  expect(await sh('cat "$GEMRC" $(echo "$MAVEN_ARGS" | cut -d" " -f2)')).toMatch(
    /:sources:\n- http:\/\/mirror\.lan:\d+\/gem\n<settings>.*<url>http:\/\/mirror\.lan:\d+\/maven<\/url>/,
  );
  expect(await sh(`curl -sS http://inside.lan:${portOf(mirror)}/`)).toContain("private or reserved address");
});

test("apt gets what it asks of the distribution from the mirror", async () => {
  const sh = async (command: string) => (await run(driver, "one", command)).out;
  const apt = "apt-get -qq -o Dir::State=/tmp/apt -o Dir::Cache=/tmp/apt -o Dir::Etc::Parts=/tmp/none";
  await sh(
    "mkdir -p /tmp/apt/lists/partial && echo 'deb [trusted=yes] http://deb.debian.org/debian ./' > /tmp/apt.list",
  );
  const sources = "-o Dir::Etc::SourceList=/tmp/apt.list -o Dir::Etc::SourceParts=-";
  expect(
    await sh(
      `cd /tmp && ${apt} ${sources} update 2>&1 && ${apt} ${sources} download thing 2>&1 && dpkg-deb -f thing*.deb Version`,
    ),
  ).toMatch(/^1\.2\.3$/m);
  for (const [asked, found] of [
    ["http://security.debian.org/debian-security/dists/a%2fb?c", "/debian-security/dists/a%2fb?c"],
    ["http://security.ubuntu.com:80/ubuntu/x", "/ubuntu/x"],
    ["http://archive.ubuntu.com/ubuntu/../x", "/ubuntu/../x"],
  ])
    expect(await sh(`curl -sS --path-as-is '${asked}'`)).toBe(`mirror ${found}`);
  expect(await sh("curl -sS http://archive.ubuntu.com/other")).toContain("network.allow");
});

test("Maven and Gradle find the proxy and the mirror, and may write into the home", async () => {
  const sh = async (command: string) => (await run(driver, "one", command)).out;
  expect(await sh('echo "$GRADLE_OPTS $SANDPIPER_PROXY_TOKEN"')).toMatch(
    /-Dhttps\.proxyHost=127\.0\.0\.1 .*-Dhttps\.proxyPassword=(\S+) .* \1\n$/,
  );
  expect(await sh("cat ~/.gradle/init.d/sandpiper.gradle")).toMatch(
    /^def mirror = "http:\/\/mirror\.lan:\d+\/maven"\n/,
  );
  expect(
    await sh("touch ~/.gradle/caches ~/.gradle/init.d/own.gradle && id -un && stat -c %U ~/.gradle"),
  ).toMatch(/^(\w+)\n\1\n$/);
});

test.each([
  ["npm=https://a.lan,pip=http://10.0.0.1:8081/simple", ["npm", "pip"]],
  ["npm=https://user:pass@a.lan", undefined],
  ["yarn=https://a.lan", undefined],
  ["npm=https://a.lan,npm=https://b.lan", undefined],
  ["npm=file:///x", undefined],
  ['cargo=https://a.lan/"x', undefined],
])("the list of mirrors %j is read as %j", (text, kinds) => {
  const mirrors = parseMirrors(text);
  expect(mirrors && Object.keys(mirrors)).toEqual(kinds);
});

test("a mirror on loopback is refused, because loopback in a sandbox is its own", () => {
  for (const host of ["localhost", "127.0.0.1", "127.1", "[::1]", "pip.localhost"])
    expect(parseMirrors(`pip=http://${host}:3141/simple`), host).toBeUndefined();
  expect(parseMirrors("pip=http://10.0.0.1:3141/simple")).toBeDefined();
});
