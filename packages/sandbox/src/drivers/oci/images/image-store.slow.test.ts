import { createHash, randomBytes } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { freePort, password, skopeo, TestRegistry } from "../../../../test/support/image-registry.ts";
import { getDigest } from "../../../specs/image-reference.ts";
import { Registries } from "../../../specs/registries.ts";
import { ImageStore, type ImageStoreOptions } from "./image-store.ts";

const idBase = 0x1000_0000;
const busybox = readFileSync("/bin/busybox");
const registry = new TestRegistry();
let dir: string;
let store: ImageStore;

beforeAll(async () => {
  await registry.start();
});
afterAll(() => registry.remove());
beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-images:, "));
  store = await open();
});
afterEach(async () => {
  await store.close();
  rmSync(dir, { recursive: true, force: true });
});

/** The operator named the registry of this test, and further ones on these ports. */
async function open(options: Partial<ImageStoreOptions> = {}, ports: number[] = []): Promise<ImageStore> {
  const registries = new Registries({
    allowed: [registry.host, ...ports.map((port) => `localhost:${port}`)],
  });
  const opened = new ImageStore({ dir: join(dir, "images"), idBase, registries, ...options });
  await opened.open();
  return opened;
}

/** Files of unfinished work. */
function halfMade(): string[] {
  return readdirSync(join(dir, "images/tmp"));
}

async function refusal(reference: string, images = store): Promise<string> {
  const began = Date.now();
  const error = await images.prepare(reference).then(
    () => undefined,
    (thrown) => thrown,
  );
  expect(error).toMatchObject({
    code: "SandboxSpecUnusable",
    status: 422,
    message: expect.stringMatching(/^[^\n]{20,400}\.$/),
  });
  expect(Date.now() - began).toBeLessThan(30_000);
  expect(halfMade()).toEqual([]);
  return error.message;
}

test("an image of one static binary is unpacked with shifted owners and pinned, with progress", async () => {
  const reference = registry.push("scratch:1", { layers: [{ "hello/busybox": busybox }] });
  const lines: string[] = [];
  const image = await store.prepare(reference, { onProgress: (line) => lines.push(line) });
  expect(image).toEqual({
    reference: expect.stringMatching(/^localhost:\d+\/scratch:1@sha256:[0-9a-f]{64}$/),
    env: {},
    user: "",
  });
  const root = store.layerPath(image.reference);
  expect(readdirSync(root)).toEqual(["hello"]);
  expect(readFileSync(join(root, "hello/busybox")).equals(busybox)).toBe(true);
  for (const path of ["", "hello", "hello/busybox"]) expect(statSync(join(root, path)).uid).toBe(idBase);
  expect(statSync(join(root, "hello/busybox")).mode & 0o777).toBe(0o755);
  expect(lines).toEqual([`asking for ${reference}`, ...lines.slice(1, -1), "unpacking"]);
  expect(statSync(join(dir, "images")).mode & 0o777).toBe(0o700);
  expect(halfMade()).toEqual([]);

  const again = await store.prepare(image.reference);
  expect(again).toEqual(image);
});

test("layers are applied in order with their whiteouts; environment and user are returned", async () => {
  const reference = registry.push("layers:1", {
    layers: [
      { "etc/passwd": "app:x:7:8::/srv/app:/bin/sh\n", "a/one": "1", "a/two": "2", "b/one": "1" },
      { "a/.wh.one": "", "b/.wh..wh..opq": "", "b/three": "3" },
      { "a/two": "changed" },
    ],
    env: ["PATH=/opt/bin", "A=b=c"],
    user: "app",
  });
  const image = await store.prepare(reference);
  expect(image).toMatchObject({ env: { A: "b=c" }, user: "app" });
  expect(image.env.PATH).toContain("/opt/bin");
  const root = store.layerPath(image.reference);
  expect(readdirSync(join(root, "a"))).toEqual(["two"]);
  expect(readdirSync(join(root, "b"))).toEqual(["three"]);
  expect(readFileSync(join(root, "a/two"), "utf8")).toBe("changed");
});

test("blobs of another image are not fetched again; concurrent calls share the work", async () => {
  const shared = { "big/data": Buffer.alloc(2_000_000, Math.random().toString()) };
  const first = registry.push("shared:1", { layers: [shared, { one: "1" }] });
  const second = registry.push("shared:2", { layers: [shared, { two: "2" }] });
  registry.fetched();
  const lines: string[][] = [[], [], []];
  const images = await Promise.all(
    lines.map((seen) => store.prepare(first, { onProgress: (line) => seen.push(line) })),
  );
  expect(new Set(images.map(({ reference }) => reference)).size).toBe(1);
  expect(lines[1]).toEqual(lines[0]);
  const blobs = layersOf(first);
  expect(registry.fetched().filter((digest) => blobs.includes(digest))).toHaveLength(2);
  await store.prepare(second);
  const fetched = registry.fetched();
  expect(fetched).not.toContain(blobs[0]);
  expect(fetched).toContain(layersOf(second)[1]);
});

test("the progress of a slow download is reported in layers and megabytes", async () => {
  const layers = [1, 2].map((n) => ({ [`random${n}`]: randomBytes(3_000_000) }));
  const name = registry.push("slow:1", { layers }).split("/")[1];
  const slow = createServer((socket) => {
    const upstream = connect(Number(registry.host.split(":")[1]), "127.0.0.1");
    for (const side of [socket, upstream])
      side.on("error", () => {}).on("close", () => [socket, upstream].map((s) => s.destroy()));
    socket.pipe(upstream);
    upstream.on("data", (chunk) => {
      upstream.pause();
      socket.write(chunk, () => setTimeout(() => upstream.resume(), chunk.length / 3_000));
    });
  });
  await new Promise<void>((resolve) => slow.listen(0, "127.0.0.1", resolve));
  const { port } = slow.address() as { port: number };
  const lines: string[] = [];
  const images = await open({}, [port]);
  await images.prepare(`localhost:${port}/${name}`, { onProgress: (line) => lines.push(line) });
  await new Promise((resolve) => slow.close(resolve));
  const fetching = lines.filter((line) => line.startsWith("fetching"));
  expect(fetching.length).toBeGreaterThan(1);
  const numbers = fetching
    .map((line) => /^fetching layer [12] of 2, (\d+) of [67] MB$/.exec(line)?.[1])
    .map(Number);
  expect(numbers).toEqual(numbers.toSorted((a, b) => a - b));
  expect(numbers.at(-1)).toBeGreaterThan(0);
});

test("an image with a damaged description is fetched again", async () => {
  const reference = registry.push("damaged:1", { layers: [{ file: "x" }] });
  const image = await store.prepare(reference);
  writeFileSync(join(store.layerPath(image.reference), "../image.json"), "");
  expect(await store.prepare(reference)).toEqual(image);
});

function layersOf(reference: string): string[] {
  const manifest = JSON.parse(skopeo("inspect", "--raw", "--tls-verify=false", `docker://${reference}`));
  return manifest.layers.map(({ digest }: { digest: string }) => digest);
}

test("a tag is resolved each time; its last image is used while the registry is down", async () => {
  const reference = registry.push("moving:1", { layers: [{ version: "1" }] });
  const version = async (name = reference) =>
    readFileSync(join(store.layerPath((await store.prepare(name)).reference), "version"), "utf8");
  const first = await store.prepare(reference);
  expect(await version()).toBe("1");
  registry.push("moving:1", { layers: [{ version: "2" }] });
  expect(await version()).toBe("2");
  expect(await version(first.reference)).toBe("1");

  await registry.stop();
  try {
    expect(await version()).toBe("2");
    await store.close();
    store = await open();
    const lines: string[] = [];
    await store.prepare(reference, { onProgress: (line) => lines.push(line) });
    expect(lines.at(-1)).toContain("does not answer");
    expect(await version(first.reference)).toBe("1");
    expect(await refusal(reference.replace(":1", ":unknown"))).toContain("cannot be reached");
  } finally {
    await registry.start();
  }
});

test("the image for this architecture is chosen, and one for another is refused", async () => {
  const other = process.arch === "x64" ? "arm64" : "amd64";
  registry.push("many:here", { layers: [{ here: "" }] });
  registry.push("many:other", { layers: [{ other: "" }], architecture: other });
  const here = process.arch === "x64" ? "amd64" : process.arch;
  await pushIndex("many", "all", { here, other });
  await pushIndex("many", "foreign", { other });
  const image = await store.prepare(`${registry.host}/many:all`);
  expect(readdirSync(store.layerPath(image.reference))).toEqual(["here"]);
  expect(await refusal(`${registry.host}/many:foreign`)).toContain(
    `is made for ${other}, not for this machine (${here})`,
  );
  expect(await refusal(`${registry.host}/many:other`)).toContain(
    `is made for ${other}, not for this machine (${here})`,
  );
});

/** Pushes an index `tag` of the tags in `platforms` (tag: architecture). */
async function pushIndex(name: string, tag: string, platforms: Record<string, string>): Promise<void> {
  const manifests = Object.entries(platforms).map(([of, architecture]) => {
    const raw = skopeo("inspect", "--raw", "--tls-verify=false", `docker://${registry.host}/${name}:${of}`);
    const mediaType = "application/vnd.oci.image.manifest.v1+json";
    return { mediaType, digest: sha256(raw), size: raw.length, platform: { os: "linux", architecture } };
  });
  const mediaType = "application/vnd.oci.image.index.v1+json";
  const body = JSON.stringify({ schemaVersion: 2, mediaType, manifests });
  const address = `http://${registry.host}/v2/${name}/manifests/${tag}`;
  const { status } = await fetch(address, { method: "PUT", body, headers: { "content-type": mediaType } });
  expect(status).toBe(201);
}

function sha256(text: string | Buffer): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

test("zstd layers, docker's manifests, docker save archives and OCI layouts work", async () => {
  const content = { layers: [{ file: "content" }], env: ["A=1"] };
  const sources = [
    registry.push("zstd:1", content, ["--dest-compress-format", "zstd"]),
    registry.push("docker:1", content, ["--format", "v2s2"]),
    `oci:${join(registry.folder, "images/zstd-1")}:image`,
    `docker-archive:${join(registry.folder, "saved.tar")}`,
  ];
  skopeo("copy", "-q", `${sources[2]}`, `${sources[3]}:saved/image:1`);
  for (const reference of sources) {
    const image = await store.prepare(reference);
    expect(image.env).toMatchObject({ A: "1" });
    expect(readFileSync(join(store.layerPath(image.reference), "file"), "utf8")).toBe("content");
    expect(await store.prepare(image.reference)).toEqual(image);
  }
});

test("invalid, unknown and unreachable images are refused within seconds, with one sentence each", async () => {
  const port = await freePort();
  expect(await refusal("Not An Image")).toContain("is not an image reference");
  expect(await refusal(`${registry.host}/nothing`)).toContain("has no image");
  expect(await refusal(`${registry.host}/scratch:2`)).toContain("has no image");
  expect(await refusal(`${registry.host}/scratch@sha256:${"0".repeat(64)}`)).toContain("has no image");
  expect(await refusal(`localhost:${port}/x`, await open({}, [port]))).toMatch(
    /localhost:\d+ cannot be reached/,
  );
  expect(await refusal("oci:/nonexistent")).toContain("does not exist");
  expect(await refusal("docker-archive:/etc/passwd")).toContain("cannot be read as an image");
  expect(() => store.layerPath(`x@sha256:${"0".repeat(64)}`)).toThrow(/not on this machine/);
});

test("a registry that accepts connections and never answers causes a timeout", async () => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket.on("error", () => {})));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  const impatient = await open({ answerTimeoutMs: 300 }, [port]);
  try {
    expect(await refusal(`localhost:${port}/x`, impatient)).toContain("does not answer");
  } finally {
    for (const socket of sockets) socket.destroy();
    server.close();
  }
});

test("credentials come from the auth file and are in no message; missing and wrong ones are refused", async () => {
  const reference = registry.push("private:1", { layers: [{ secret: "x" }] });
  await registry.stop();
  await registry.start({ auth: true });
  try {
    const authFile = join(dir, "auth.json");
    const login = (text: string) => {
      const auths = { [registry.host]: { auth: Buffer.from(`ann:${text}`).toString("base64") } };
      writeFileSync(authFile, JSON.stringify({ auths }), { mode: 0o600 });
    };
    const images = await open({ authFile });
    login("wrong horse");
    const message = await refusal(reference, images);
    expect(message).toContain("refuses access");
    expect(message).not.toMatch(/horse/);
    expect(await refusal(reference)).toContain("refuses access");
    login(password);
    const image = await images.prepare(reference);
    expect(readdirSync(images.layerPath(image.reference))).toEqual(["secret"]);
  } finally {
    await registry.stop();
    await registry.start();
  }
});

test("changed bytes of manifests, layers and cached blobs are detected", async () => {
  const reference = registry.push("changed:1", { layers: [{ file: "x" }] });
  const digest = (await store.prepare(reference)).reference;
  const layer = layersOf(reference)[0]!;
  const fresh = async () => {
    await store.close();
    rmSync(join(dir, "images"), { recursive: true });
    store = await open();
  };
  const blob = (name: string) =>
    join(registry.folder, `data/docker/registry/v2/blobs/sha256/${name.slice(7, 9)}/${name.slice(7)}/data`);
  const spoil = async (file: string, work: () => Promise<void>) => {
    const right = readFileSync(file);
    writeFileSync(file, Buffer.concat([right.subarray(0, -1), Buffer.from("X")]));
    await work();
    writeFileSync(file, right);
  };
  await fresh();
  await spoil(blob(layer), async () => void (await refusal(digest)));
  await fresh();
  await spoil(blob(getDigest(digest)!), async () => void (await refusal(digest)));

  const first = await store.prepare(digest);
  rmSync(join(store.layerPath(first.reference), ".."), { recursive: true });
  const cached = join(dir, "images/blobs", layer.replace(":", "/"));
  writeFileSync(cached, "spoilt");
  expect(await refusal(digest)).toContain("cannot be unpacked");
  expect(await store.prepare(digest)).toEqual(first);
});

test("a caller that aborts stops waiting at once; the work ends with the last caller", async () => {
  const reference = registry.push("given-up:1", { layers: [{ data: Buffer.alloc(30_000_000, 1) }] });
  const leave = new AbortController();
  const left = store.prepare(reference, {
    signal: leave.signal,
    onProgress: (line) => line !== `asking for ${reference}` && leave.abort(new Error("gone")),
  });
  const stays = store.prepare(reference);
  await expect(left).rejects.toThrow("gone");
  const image = await stays;

  await store.prune([], 0);
  const alone = new AbortController();
  const onProgress = () => alone.abort(new Error("gone"));
  await expect(store.prepare(reference, { signal: alone.signal, onProgress })).rejects.toThrow("gone");
  await store.close();
  expect(halfMade()).toEqual([]);
  expect(() => store.layerPath(image.reference)).toThrow();
});

test("unused images and blobs are removed after a while", async () => {
  const [one, two] = await Promise.all([
    store.prepare(registry.push("prune:1", { layers: [{ one: "1" }] })),
    store.prepare(registry.push("prune:2", { layers: [{ two: "2" }] })),
  ]);
  await store.prune([]);
  expect(store.layerPath(one.reference)).toBeTruthy();
  const old = new Date(Date.now() - 30 * 86_400_000);
  for (const image of [one, two])
    utimesSync(join(store.layerPath(image.reference), "../image.json"), old, old);
  await store.prune([one.reference]);
  expect(store.layerPath(one.reference)).toBeTruthy();
  expect(() => store.layerPath(two.reference)).toThrow();
  const blobs = readdirSync(join(dir, "images/blobs/sha256"));
  expect(blobs).toHaveLength(3);
  expect(halfMade()).toEqual([]);
  // A pruned image can be prepared again.
  await store.prepare(two.reference);
  mkdirSync(join(dir, "images/tmp/left/over"), { recursive: true });
  await store.close();
  store = await open();
  expect(halfMade()).toEqual([]);
});
