import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { TestRegistry } from "../../../../test/support/image-registry.ts";
import { getDigest } from "../../../specs/image-reference.ts";
import { Registries } from "../../../specs/registries.ts";
import { ImageStore } from "./image-store.ts";

const script = fileURLToPath(new URL("./fixtures/prepare-image.ts", import.meta.url));
const busybox = readFileSync("/bin/busybox");
const registry = new TestRegistry();
let dir: string;
let children: ChildProcess[];

beforeAll(async () => {
  await registry.start();
});
afterAll(() => registry.remove());
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "sandpiper-images-"));
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
});

/** Starts a process that prepares an image. Gives its lines and its end. */
function prepare(reference: string) {
  const child = spawn(process.execPath, [script, dir, reference, registry.host], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  children.push(child);
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout });
  reader.on("line", (line) => lines.push(line));
  const sees = (wanted: RegExp) =>
    new Promise<void>((resolve) => {
      const look = () => lines.some((line) => wanted.test(line)) && resolve();
      reader.on("line", look);
      look();
    });
  const done = once(child, "close").then(() => lines.at(-1));
  return { child, lines, sees, done };
}

function push(name: string, megabytes: number): string {
  const layer = {
    "bin/busybox": busybox,
    data: Buffer.alloc(megabytes * 1_000_000, Math.random().toString()),
  };
  return registry.push(name, { layers: [layer] });
}

function expectWhole(roots: number): void {
  expect(readdirSync(join(dir, "tmp"))).toEqual([]);
  expect(readdirSync(join(dir, "fetches"))).toEqual([]);
  const found = readdirSync(join(dir, "roots"));
  expect(found).toHaveLength(roots);
  for (const hex of found)
    expect(readFileSync(join(dir, "roots", hex, "rootfs/bin/busybox")).equals(busybox)).toBe(true);
}

test("of four processes that prepare one image, one process fetches its blobs once", async () => {
  const reference = push("one:1", 20);
  registry.fetched();
  const all = Array.from({ length: 4 }, () => prepare(reference));
  expect(await Promise.all(all.map(({ done }) => done))).toEqual(Array(4).fill("done"));
  const blobs = registry.fetched();
  const [root] = readdirSync(join(dir, "roots"));
  const { blobs: kept } = JSON.parse(readFileSync(join(dir, "roots", root!, "image.json"), "utf8"));
  // Each process reads the configuration of the image, but only one process reads the layer.
  const layers = blobs.filter(
    (blob) => kept.includes(blob) && blobs.indexOf(blob) === blobs.lastIndexOf(blob),
  );
  expect(layers.length).toBeGreaterThan(0);
  expect(all.filter(({ lines }) => lines.includes("unpacking"))).not.toHaveLength(0);
  expectWhole(1);
});

test("four processes prepare images of their own that share blobs", async () => {
  const shared = { data: Buffer.alloc(5_000_000, Math.random().toString()) };
  const references = [1, 2, 3, 4].map((tag) =>
    registry.push(`own:${tag}`, { layers: [{ "bin/busybox": busybox }, shared, { tag: String(tag) }] }),
  );
  const all = references.map((reference) => prepare(reference));
  expect(await Promise.all(all.map(({ done }) => done))).toEqual(Array(4).fill("done"));
  expectWhole(4);
});

test("a waiting process fetches an image whose fetching process was killed, and no file is left", async () => {
  const reference = push("killed:1", 150);
  const first = prepare(reference);
  await first.sees(/unpacking/);
  const second = prepare(reference);
  await second.sees(/^asking/);
  first.child.kill("SIGKILL");
  expect(await second.done).toBe("done");
  const registries = new Registries({ allowed: [registry.host] });
  const store = new ImageStore({ dir, idBase: 0x1000_0000, registries });
  await store.open();
  await store.close();
  expectWhole(1);
});

test("a process that stands still does not stop the others, and later finds the image", async () => {
  const reference = push("still:1", 150);
  const first = prepare(reference);
  await first.sees(/unpacking/);
  first.child.kill("SIGSTOP");
  const registries = new Registries({ allowed: [registry.host] });
  const store = new ImageStore({ dir, idBase: 0x1000_0000, registries, stillMs: 3_000 });
  await store.open();
  const lines: string[] = [];
  const image = await store.prepare(reference, { onProgress: (line) => lines.push(line) });
  const root = store.layerPath(image.reference);
  const { ino } = statSync(root);
  first.child.kill("SIGCONT");
  expect(await first.done).toBe("done");
  // A published image stays in its place, because a sandbox may use it already.
  expect(statSync(store.layerPath(image.reference)).ino).toBe(ino);
  await store.close();
  expectWhole(1);
});

test("an image that another process is about to use is not removed, and blobs stay during a fetch", async () => {
  const [old, wanted] = [push("old:1", 1), push("wanted:1", 150)];
  const registries = new Registries({ allowed: [registry.host] });
  const store = new ImageStore({ dir, idBase: 0x1000_0000, registries });
  await store.open();
  const image = await store.prepare(old);
  const other = prepare(wanted);
  await other.sees(/unpacking/);
  await store.prune([], 0);
  expect(readdirSync(join(dir, "roots"))).toEqual([]);
  // The blobs of the removed image stay too, because the other process may need them.
  expect(readdirSync(join(dir, "blobs/sha256")).length).toBeGreaterThan(3);
  expect(await other.done).toBe("done");
  await prepare(image.reference).done;
  await store.prune([], 60_000);
  expect(readdirSync(join(dir, "roots"))).toContain(getDigest(image.reference)!.slice(7));
  await store.close();
  expectWhole(2);
});
