import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdtempSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HostileRegistry } from "../../../../test/support/hostile-registry.ts";
import { getDigest } from "../../../specs/image-reference.ts";
import { Registries } from "../../../specs/registries.ts";
import { writeHeader } from "../../../tar/tar-header.ts";
import { ImageStore } from "./image-store.ts";

const mebibyte = 2 ** 20;
const limits = { bytes: 8 * mebibyte, files: 10_000, depth: 200 };
let registry: HostileRegistry;
let dir: string;
let store: ImageStore;
let used: string[];

beforeEach(async () => {
  registry = await new HostileRegistry().listen();
  dir = mkdtempSync(join(tmpdir(), "sandpiper-images-"));
  used = [];
  const registries = new Registries({ allowed: [registry.host] });
  store = new ImageStore({ dir, idBase: 0x1000_0000, limits, registries, used: () => used });
  await store.open();
});
afterEach(async () => {
  await store.close();
  await registry.close();
  execFileSync("rm", ["-rf", dir]);
});

function layer(size: number): { packed: Buffer; content: Buffer } {
  const file = [writeHeader({ path: "file", size }), randomBytes(size), Buffer.alloc(1024 - (size % 512))];
  const content = Buffer.concat([...file, randomBytes(8)]);
  return { packed: gzipSync(content), content };
}

async function prepare(tag: string, size: number): Promise<string> {
  const { packed, content } = layer(size);
  const { reference } = await store.prepare(registry.image(tag, [{ ...registry.blob(packed), content }]));
  return reference;
}

const folder = (reference: string) => join(dir, "roots", getDigest(reference)!.slice("sha256:".length));

test("images that nothing uses take no more than one image may: the oldest go first", async () => {
  const prepared: string[] = [];
  for (const tag of ["a", "b", "c"]) {
    prepared.push(await prepare(tag, 3 * mebibyte));
    const time = new Date(Date.now() - 3_600_000 + prepared.length * 1_000);
    utimesSync(join(folder(prepared.at(-1)!), "image.json"), time, time);
    used = [prepared[0]!];
  }
  const there = () => prepared.map((reference) => existsSync(folder(reference)));
  expect(there()).toEqual([true, true, true]);
  // A new one stays, because its sandbox may be about to start.
  prepared.push(await prepare("d", 3 * mebibyte));
  expect(there()).toEqual([true, false, true, true]);
  prepared.push(await prepare("e", 7 * mebibyte));
  expect(there()).toEqual([true, false, false, true, true]);
  const blobs = execFileSync("du", ["-sm", join(dir, "blobs")], { encoding: "utf8" }).split("\t")[0];
  expect(Number(blobs)).toBeLessThan(16);
});

test("a user fetches two images at a time, and all users four; others wait and say so", async () => {
  const asked = new Set<string>();
  const held: (() => void)[] = [];
  const lines = new Map<string, string>();
  const fetch = (owner: string, number: number) => {
    const tag = `${owner}${number}`;
    const { packed, content } = layer(512);
    const blob = registry.blob(packed, (response) => {
      asked.add(tag);
      held.push(() => void response.writeHead(200, { "content-length": packed.length }).end(packed));
    });
    const reference = registry.image(tag, [{ ...blob, content }]);
    return store.prepare(reference, { owner, onProgress: (line) => lines.set(tag, line) });
  };
  const waits = "waiting until other images are fetched";
  const within = { timeout: 20_000 };
  const ann = [1, 2, 3].map((number) => fetch("ann", number));
  await expect.poll(() => asked.size, within).toBe(2);
  await expect.poll(() => [...lines.values()].filter((line) => line === waits).length, within).toBe(1);
  const ben = [1, 2].map((number) => fetch("ben", number));
  await expect.poll(() => asked.size, within).toBe(4);
  const cem = fetch("cem", 1);
  await expect.poll(() => lines.get("cem1"), within).toBe(waits);
  expect(asked.size).toBe(4);
  let isOver = false;
  const all = Promise.all([...ann, ...ben, cem]).then(() => {
    isOver = true;
  });
  const send = () => {
    for (const answer of held.splice(0)) answer();
    return isOver;
  };
  await expect.poll(send, within).toBe(true);
  await all;
  expect(asked.size).toBe(6);
});
