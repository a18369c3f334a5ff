import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOutbound } from "@sandpiper/core/outbound/outbound";
import { findUpstreamProxy } from "@sandpiper/core/outbound/upstream-proxy";
import { afterAll, beforeAll, expect, test } from "vitest";
import { basic, ownAddress, portOf, serve, testAuthority } from "../../../../test/support/egress.ts";
import { Registries } from "../../../specs/registries.ts";
import { ImageStore } from "./image-store.ts";

/** A service that only this machine should reach, and the requests that it got. */
const secret = "the answer of an inside service";
const asked: string[] = [];
let inside: Server;
let insidePort: number;
/** A registry on this machine, which the operator named, and which answers what a test wants. */
let registry: Server;
let answer: RequestListener;
let dir: string;

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-images-"));
  inside = await serve(
    (request, response) => {
      asked.push(String(request.url));
      response.end(JSON.stringify({ token: secret, access_token: secret }));
    },
    { address: "127.0.0.1" },
  );
  insidePort = portOf(inside);
  registry = await serve((request, response) => answer(request, response), { address: "127.0.0.1" });
});
afterAll(() => {
  inside.close();
  registry.close();
  rmSync(dir, { recursive: true, force: true });
});

/** The error of fetching an image; the way to public hosts resolves names by `hosts`. */
async function refusal(reference: string, hosts: Record<string, string[]> = {}): Promise<string> {
  const registries = new Registries({
    specs: [{ root: { kind: "image", reference: `localhost:${portOf(registry)}/named:1` } }],
    outbound: createOutbound({ allowPrivate: [], resolve: async (host) => hosts[host] ?? [] }),
  });
  const store = new ImageStore({ dir: join(dir, "images"), idBase: 0x1000_0000, registries });
  await store.open();
  const error = await store.prepare(reference).then(
    () => undefined,
    (thrown: Error) => thrown,
  );
  await store.close();
  expect(error).toMatchObject({ code: "SandboxSpecUnusable", status: 422 });
  return error!.message;
}

const sha256 = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
const config = JSON.stringify({ os: "linux", architecture: process.arch === "x64" ? "amd64" : "arm64" });
const manifest = (layer: object) =>
  JSON.stringify({
    schemaVersion: 2,
    mediaType: "application/vnd.docker.distribution.manifest.v2+json",
    config: {
      mediaType: "application/vnd.docker.container.image.v1+json",
      digest: sha256(config),
      size: config.length,
    },
    layers: [{ size: 100, digest: sha256("layer"), ...layer }],
  });
const gzipped = "application/vnd.docker.image.rootfs.diff.tar.gzip";

/** Serves a manifest and its config; `other` answers for the layer. */
function serveImage(text: string, other: RequestListener): RequestListener {
  return (request, response) => {
    if (request.url!.includes("/manifests/")) {
      response.setHeader("content-type", "application/vnd.docker.distribution.manifest.v2+json");
      response.end(text);
    } else if (request.url!.endsWith(sha256(config))) response.end(config);
    else if (request.url!.includes("/blobs/")) other(request, response);
    else response.end("{}");
  };
}

test.each<[string, (target: string) => RequestListener]>([
  [
    "its token service",
    (target) => (_request, response) => {
      response.writeHead(401, { "www-authenticate": `Bearer realm="${target}",service="x"` }).end();
    },
  ],
  [
    "a redirect of a manifest",
    (target) => (request, response) => {
      const isPing = /^\/v2\/$/.test(request.url!);
      response.writeHead(isPing ? 200 : 307, isPing ? {} : { location: target }).end();
    },
  ],
  [
    "a redirect of a layer",
    (target) =>
      serveImage(manifest({ mediaType: gzipped }), (_request, response) =>
        response.writeHead(307, { location: target }).end(),
      ),
  ],
  [
    "a foreign layer",
    (target) =>
      serveImage(
        manifest({
          mediaType: "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
          urls: [target],
        }),
        (_request, response) => response.writeHead(404).end(),
      ),
  ],
])("a registry leads to nothing inside by %s", async (name, attack) => {
  asked.length = 0;
  let got = "";
  // skopeo retries a layer for seconds, so that one target has to do there.
  const hosts = name.includes("layer") ? ["localhost"] : ["127.0.0.1", "localhost", "127.0.0.2", "0.0.0.0"];
  for (const host of hosts) {
    answer = attack(`http://${host}:${insidePort}/secret`);
    got += await refusal(`localhost:${portOf(registry)}/attack:1`);
  }
  expect(asked).toEqual([]);
  expect(got).not.toContain(secret);
});

test("an image from a private registry is refused, whatever form its address has", async () => {
  asked.length = 0;
  const private4 = ownAddress();
  const names = {
    "inside.test": [private4],
    "mixed.test": ["10.0.0.1", "::ffff:127.0.0.1"],
    "far.test": ["64:ff9b::7f00:1"],
  };
  for (const [host, name] of [
    [`127.0.0.1:${insidePort}`],
    [`localhost:${insidePort}`],
    ["169.254.169.254"],
    ["10.1.2.3:5000", "10.1.2.3"],
    ["inside.test:5000", "inside.test"],
    ["mixed.test"],
    ["far.test"],
  ])
    expect(await refusal(`${host}/x:1`, names)).toBe(
      `${name ?? host} is a private or reserved address, so no image is fetched from there: the operator can name it in SANDPIPER_REGISTRIES, or its range in SANDPIPER_OUTBOUND_PRIVATE.`,
    );
  expect(asked).toEqual([]);
});

test("a public registry is asked over TLS, and what it names inside is refused by name", async () => {
  const address = ownAddress();
  const certificates = join(dir, "ca.pem");
  writeFileSync(certificates, testAuthority);
  const asksFor: string[] = [];
  const realm = (host: string) => `Bearer realm="https://${host}/token",service="x"`;
  let host = "";
  const server = await serve(
    (request, response) => {
      asksFor.push(request.url!);
      response.writeHead(401, { "www-authenticate": realm(host) }).end();
    },
    { address, port: 443, host: "registry.test" },
  );
  const before = process.env.SSL_CERT_FILE;
  process.env.SSL_CERT_FILE = certificates;
  const outbound = createOutbound({
    allowPrivate: [`${address}/32`],
    resolve: async (name) => [name === "registry.test" ? address : "127.0.0.1"],
  });
  try {
    for (host of ["inside.test", "169.254.169.254", "[::ffff:10.0.0.1]", "inside.test:8443"]) {
      const store = new ImageStore({
        ...{ dir: join(dir, "images"), idBase: 0x1000_0000 },
        registries: new Registries({ outbound }),
      });
      await store.open();
      const name = host.replace(/:8443$/, "").replace("[::ffff:10.0.0.1]", "::ffff:a00:1");
      await expect(store.prepare("registry.test/x:1")).rejects.toThrow(
        `${name} is a private or reserved address, so no image is fetched from there`,
      );
      await store.close();
    }
    expect(asksFor).toContain("/v2/");
  } finally {
    if (before === undefined) delete process.env.SSL_CERT_FILE;
    else process.env.SSL_CERT_FILE = before;
    server.close();
  }
});

test("the operator's proxy is the way to what is not inside", async () => {
  const seen: string[] = [];
  const proxy = createServer().on("connect", (request, socket) => {
    seen.push(`${request.url} ${request.headers["proxy-authorization"]}`);
    socket.end("HTTP/1.1 403 no\r\n\r\n");
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const outbound = createOutbound({
    allowPrivate: [],
    resolve: async (host) => {
      const inside: Record<string, string[]> = {
        "inside.test": ["10.0.0.1"],
        "mixed.test": ["198.41.0.4", "10.0.0.1"],
      };
      return inside[host] ?? [];
    },
    proxy: findUpstreamProxy({
      https_proxy: `http://ann:pass@127.0.0.1:${portOf(proxy)}`,
      NO_PROXY: "localhost,.direct.test",
    }),
  });
  const connect = (host: string) => outbound.connect({ host, port: 443 });
  await expect(connect("registry.test")).rejects.toThrow("the proxy of the server answers 403");
  await expect(connect("inside.test")).rejects.toThrow("private or reserved");
  await expect(connect("mixed.test")).rejects.toThrow("private or reserved");
  await expect(connect("127.0.0.1")).rejects.toThrow("private or reserved");
  await expect(connect("a.direct.test")).rejects.toThrow("The host a.direct.test does not exist.");
  expect(seen).toEqual([`registry.test:443 ${basic("pass", "ann")}`]);
  proxy.close();
});

test("a registry whose name does not exist is reported as such", async () => {
  expect(await refusal("nowhere.test/x:1")).toBe(
    "The registry nowhere.test cannot be reached: The host nowhere.test does not exist.",
  );
});
