import type { Server } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ownAddress, policyOf, portOf, serve, TestProxy } from "../../test/support/egress.ts";
import { openTestDriver, run, testSpec } from "../../test/support/oci.ts";
import type { OciDriver } from "../drivers/oci/oci-driver.ts";
import { parseMirrors, toMirrorConfig } from "../specs/package-sources/mirrors.ts";
import { egressToken } from "./environment.ts";

/** A mirror at a private address, as sandboxes use it. */

const address = ownAddress();
let mirror: Server;
let proxy: TestProxy;
let driver: OciDriver;
let end: () => Promise<void>;

beforeAll(async () => {
  mirror = await serve(
    (request, response) => {
      if (request.url !== "/npm/thing") return response.end(`mirror ${request.url}`);
      const dist = { tarball: "http://mirror.lan/x.tgz", shasum: "0".repeat(40) };
      const versions = { "1.2.3": { name: "thing", version: "1.2.3", dist } };
      response.end(JSON.stringify({ name: "thing", "dist-tags": { latest: "1.2.3" }, versions }));
    },
    { address },
  );
  const base = `http://mirror.lan:${portOf(mirror)}`;
  const kinds = ["pip", "npm", "go", "cargo", "gem", "maven"];
  const { rules, env, files } = toMirrorConfig(
    parseMirrors(kinds.map((one) => `${one}=${base}/${one}`).join())!,
  );
  proxy = await TestProxy.open({ env: {}, resolve: async () => [address], files });
  ({ driver, end } = await openTestDriver());
  const other = { host: "inside.lan", ports: [portOf(mirror)], methods: null };
  const policy = policyOf({ allow: [...rules, other], private: [] });
  const sandbox = { id: "one", userId: "ann", policy, token: egressToken("key") };
  const all = { ...proxy.proxy.environment(sandbox), ...env, ...testSpec.env };
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
