import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterEach, beforeEach, expect, test } from "vitest";
import { until } from "../../test/support/until.ts";
import { FolderBlobStore } from "./folder-store.ts";

const mebibyte = 2 ** 20;
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "sandpiper-folder-blobs-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const unfinished = () => readdirSync(join(folder, "unfinished"));

test("the part of a killed writer is never listed, and is removed when it is old", async () => {
  const code = `
    import { FolderBlobStore } from ${JSON.stringify(new URL("./folder-store.ts", import.meta.url))};
    const source = async function* () { for (;;) yield new Uint8Array(65536); };
    await new FolderBlobStore(${JSON.stringify(folder)}).put(source());`;
  const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", code], { stdio: "inherit" });
  const written = () => {
    const [name] = readdirSync(folder).includes("unfinished") ? unfinished() : [];
    return name !== undefined && statSync(join(folder, "unfinished", name)).size > mebibyte;
  };
  await until(() => written() || undefined);
  child.kill("SIGKILL");
  await once(child, "exit");
  const store = new FolderBlobStore(folder);
  expect(await store.list()).toEqual({ blobs: [], next: undefined });
  expect(await store.removeUnfinished(3_600_000)).toBe(0);
  expect(unfinished()).toHaveLength(1);
  expect(await store.removeUnfinished(0)).toBe(1);
  expect(unfinished()).toEqual([]);
});

test("a store on a full disk refuses a blob without a trace, and takes it when there is room", async () => {
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=4m", "sandpiper-test", folder]);
  try {
    const store = new FolderBlobStore(folder);
    const first = await store.put(Readable.from([randomBytes(3 * mebibyte)]));
    await expect(store.put(Readable.from([randomBytes(3 * mebibyte)]))).rejects.toMatchObject({
      code: "StorageFull",
      message: `${folder} is full: make room there and try again.`,
    });
    expect(unfinished()).toEqual([]);
    expect((await buffer(await store.get(first))).length).toBe(first.size);
    await store.remove(first.digest);
    await store.put(Readable.from([randomBytes(3 * mebibyte)]));
  } finally {
    execFileSync("umount", ["-l", folder]);
  }
});

test("an error names a folder that cannot be used, and other users cannot read blobs", async () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  await expect(new FolderBlobStore(file).check()).rejects.toMatchObject({
    code: "BlobsUnavailable",
    message: expect.stringMatching(/^The folder .*file cannot be used \(ENOTDIR\): let the server/),
  });
  const umask = process.umask(0);
  try {
    const { digest } = await new FolderBlobStore(folder).put(Readable.from([Buffer.from("x")]));
    const path = join(folder, "sha256", digest.slice(0, 2), digest.slice(2));
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(path)).mode & 0o777).toBe(0o700);
  } finally {
    process.umask(umask);
  }
});

test("the store does not follow a link in the place of a blob", async () => {
  const store = new FolderBlobStore(folder);
  const digest = "a".repeat(64);
  mkdirSync(join(folder, "sha256", "aa"), { recursive: true });
  writeFileSync(join(folder, "secret"), "secret");
  chmodSync(join(folder, "secret"), 0o644);
  symlinkSync(join(folder, "secret"), join(folder, "sha256", "aa", digest.slice(2)));
  await expect(store.get({ digest, size: 6 })).rejects.toMatchObject({ code: "BlobsUnavailable" });
});

test("a blob that is stored again is as young as a new one", async () => {
  const store = new FolderBlobStore(folder);
  const put = () => store.put(Readable.from([Buffer.from("the same bytes")]));
  const { digest } = await put();
  const path = join(folder, "sha256", digest.slice(0, 2), digest.slice(2));
  utimesSync(path, 1, 1);
  const before = Date.now() - 60_000;
  await put();
  expect((await store.list()).blobs[0]!.storedAt).toBeGreaterThan(before);
});
