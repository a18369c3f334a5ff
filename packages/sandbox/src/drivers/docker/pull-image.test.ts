import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run, suiteLimits } from "../../../test/driver-suite/context.ts";
import { startTestEngine, type TestEngine } from "../../../test/support/docker-engine.ts";
import { busyboxImage, importTestImages } from "../../../test/support/docker-image.ts";
import { startTestRegistry, type TestRegistry } from "../../../test/support/docker-registry.ts";
import type { SandboxSpec } from "../../driver.ts";
import { Registries } from "../../specs/registries.ts";
import { createHostSpec } from "../../specs/specs.ts";
import { findCredentials } from "./credentials.ts";
import { DockerDriver } from "./docker-driver.ts";

/** User `ann`, password `pass:word`. */
const htpasswd = "ann:$2y$05$abcdefghijklmnopqrstuuDIEddBSuRWBBEY6g5zv60IAP5bSSfki\n";
const right = Buffer.from("ann:pass:word").toString("base64");

let dir: string;
let engine: TestEngine;
let registry: TestRegistry;
let driver: DockerDriver;
let digest: string;
/** A registry that accepts connections and never answers. */
const silent = createServer(() => {});
const silentAddress = () => `127.0.0.1:${(silent.address() as AddressInfo).port}`;
const authFile = () => join(dir, "auth.json");
const specOf = (reference: string): SandboxSpec => ({
  ...createHostSpec(suiteLimits),
  root: { kind: "image", reference },
  user: null,
});
const writeAuth = (auth: string) =>
  writeFileSync(authFile(), JSON.stringify({ auths: { [registry.address]: { auth } } }));

beforeAll(async () => {
  dir = mkdtempSync("/tmp/sandpiper-test-");
  [engine, registry] = await Promise.all([startTestEngine(), startTestRegistry(htpasswd)]);
  await importTestImages(engine.engine.docker);
  writeAuth(right);
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const registries = new Registries({ allowed: [registry.address, silentAddress()] });
  driver = new DockerDriver({
    dir,
    host: { socketPath: engine.socketPath },
    authFile: authFile(),
    registries,
  });
  await driver.open();
  const { docker } = engine.engine;
  const name = `${registry.address}/team/app`;
  await docker.getImage(busyboxImage).tag({ repo: name, tag: "1" });
  const words = await text(
    await docker.getImage(`${name}:1`).push({ authconfig: findCredentials(registry.address, authFile()) }),
  );
  digest = /sha256:[0-9a-f]{64}/.exec(words.slice(words.lastIndexOf("digest:")))?.[0] ?? words;
});
afterAll(async () => {
  await driver?.close();
  await engine?.end();
  await registry?.end();
  silent.close();
  rmSync(dir, { recursive: true, force: true });
});

/** Removes the image from the engine, so that it must be fetched. */
async function forget(): Promise<void> {
  const { docker } = engine.engine;
  for (const { Id } of await docker.listImages()) await docker.getImage(Id).remove({ force: true });
}

test("fetches an image once for concurrent callers, with credentials and progress, and pins it", async () => {
  await forget();
  const lines: string[] = [];
  const onProgress = (line: string) => void lines.push(line);
  const prepared = await Promise.all(
    [1, 2, 3].map(() => driver.prepare(specOf(`${registry.address}/team/app:1`), { onProgress })),
  );
  for (const one of prepared)
    expect(one.root).toEqual({ kind: "image", reference: `${registry.address}/team/app:1@${digest}` });
  expect(lines[0]).toBe(`asking ${registry.address} for ${registry.address}/team/app:1`);
  expect(lines.join("\n")).toMatch(/fetching layer 1 of 1, \d+ of \d+ MB/);
  expect(lines.join("\n")).not.toMatch(/pass:word|YW5u/);
  await driver.start({ id: "pulled", spec: prepared[0]! });
  expect(await run(driver, "pulled", "echo works")).toMatchObject({ out: "works\n" });
  await driver.remove("pulled");
  // An image that the engine has needs no registry and no credentials.
  writeAuth(Buffer.from("ann:wrong").toString("base64"));
  expect(await driver.prepare(specOf(`${registry.address}/team/app:1`))).toEqual(prepared[0]);
  expect(await driver.prepare(specOf(`${registry.address}/team/app@${digest}`))).toMatchObject({
    user: prepared[0]!.user,
  });
  writeAuth(right);
});

test("fetches by digest", async () => {
  await forget();
  const prepared = await driver.prepare(specOf(`${registry.address}/team/app@${digest}`));
  expect(prepared.root).toMatchObject({ reference: expect.stringContaining(`@${digest}`) });
});

test("an image that is larger than the limit is refused and does not stay in the engine", async () => {
  await forget();
  const small = new DockerDriver({
    dir,
    host: { socketPath: engine.socketPath },
    authFile: authFile(),
    registries: new Registries({ allowed: [registry.address] }),
    maxImageBytes: 100_000,
  });
  await small.open();
  await expect(small.prepare(specOf(`${registry.address}/team/app:1`))).rejects.toThrow(
    /^The image \S+ unpacks to more than the 0\.1 MB that this server takes: .*SANDPIPER_MAX_IMAGE\.$/,
  );
  expect(await engine.engine.docker.listImages()).toEqual([]);
  await small.close();
});

test("reports a failed fetch in one sentence", async () => {
  await forget();
  const { address } = registry;
  const failure = (reference: string) =>
    driver.prepare(specOf(reference)).then(
      () => "prepared",
      ({ code, message }) => `${code}: ${message}`,
    );
  expect(await failure(`${address}/team/app:2`)).toBe(
    `SandboxSpecUnusable: The registry ${address} has no image ${address}/team/app:2.`,
  );
  expect(await failure(`${address}/team/other:1`)).toMatch(
    /^SandboxSpecUnusable: The registry \S+ has no image /,
  );
  expect(await failure(`${address}/team/app@sha256:${"1".repeat(64)}`)).toMatch(
    /^SandboxSpecUnusable: The registry \S+ has no image /,
  );
  writeAuth(Buffer.from("ann:wrong").toString("base64"));
  expect(await failure(`${address}/team/app:1`)).toMatch(
    /^SandboxSpecUnusable: The registry \S+ refuses access to .*SANDPIPER_REGISTRY_AUTH\.$/,
  );
  writeFileSync(authFile(), "{}");
  expect(await failure(`${address}/team/app:1`)).toMatch(
    /^SandboxSpecUnusable: The registry \S+ refuses access to /,
  );
  writeFileSync(authFile(), '{"auths": {"x": {"auth": "c2VjcmV0');
  expect(await failure(`${address}/team/app:1`)).toBe(
    `SandboxSpecUnusable: The file with registry credentials ${authFile()} cannot be read: it is not JSON (line 1, column 35, where its end is missing).`,
  );
  writeAuth(right);
  expect(await failure("oci:/tmp/layout:1")).toMatch(
    /^SandboxSpecUnusable: The docker driver takes images from registries /,
  );
});

test("lets one caller abort while others wait", async () => {
  await forget();
  writeAuth(right);
  const reference = `${silentAddress()}/never/answers:1`;
  const giveUp = new AbortController();
  const waiting = driver.prepare(specOf(reference), {
    signal: giveUp.signal,
    onProgress: () => giveUp.abort(new Error("enough")),
  });
  await expect(waiting).rejects.toThrow("enough");
});

test("does not let the engine ask a registry that the operator did not name", async () => {
  let connections = 0;
  const inside = createServer(() => connections++).listen(0, "127.0.0.1");
  await once(inside, "listening");
  const { port } = inside.address() as AddressInfo;
  for (const registry of [`127.0.0.1:${port}`, `localhost:${port}`, "169.254.169.254", "registry.test"])
    await expect(driver.prepare(specOf(`${registry}/x:1`))).rejects.toMatchObject({
      code: "SandboxSpecUnusable",
      message: `The container engine asks registries by itself, and its requests cannot be checked: the operator can name ${registry} in SANDPIPER_REGISTRIES, or pull the image into the engine.`,
    });
  expect(connections).toBe(0);
  inside.close();
});

test("reads credentials in the formats of docker and skopeo", () => {
  const file = join(dir, "config.json");
  const auths = {
    "https://index.docker.io/v1/": { auth: Buffer.from("hub:p").toString("base64") },
    "https://registry.example.com": { identitytoken: "token" },
    "plain.example.com:5000": { auth: right },
    "empty.example.com": {},
  };
  writeFileSync(file, JSON.stringify({ auths }));
  expect(findCredentials("docker.io", file)).toEqual({
    serveraddress: "https://index.docker.io/v1/",
    username: "hub",
    password: "p",
  });
  expect(findCredentials("registry.example.com", file)).toEqual({
    serveraddress: "registry.example.com",
    identitytoken: "token",
  });
  expect(findCredentials("plain.example.com:5000", file)).toMatchObject({
    username: "ann",
    password: "pass:word",
  });
  expect(findCredentials("empty.example.com", file)).toBeUndefined();
  expect(findCredentials("other.example.com", file)).toBeUndefined();
  expect(() => findCredentials("other.example.com", join(dir, "missing.json"))).toThrow(
    "cannot be read: ENOENT",
  );
});
