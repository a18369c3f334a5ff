import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type S3Server, s3Program, startS3Server } from "../../test/support/s3-server.ts";
import type { BlobInfo, BlobStore } from "./blob-store.ts";
import { openBlobStore } from "./open.ts";
import { openS3BlobStore } from "./s3/s3-store.ts";

const mebibyte = 2 ** 20;
/** Size of the smallest part that S3 accepts, bytes. */
const partBytes = 5 * mebibyte;

interface Engine {
  store: BlobStore;
  /** Returns the path of a blob's file below the store. */
  file(digest: string): string;
  /** Folders that must be empty when no `put` is in progress. */
  folders: string[];
  close(): Promise<void>;
}

async function openFolder(): Promise<Engine> {
  const folder = mkdtempSync(join(tmpdir(), "sandpiper-blobs-"));
  return {
    store: await openBlobStore({ kind: "folder", path: folder }),
    file: (digest) => join(folder, "sha256", digest.slice(0, 2), digest.slice(2)),
    folders: [join(folder, "unfinished")],
    close: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function openS3(): Promise<Engine> {
  const server: S3Server = await startS3Server();
  const limits = { connectMs: 5_000, idleMs: 30_000, callMs: 60_000, tries: 4 };
  const store = openS3BlobStore(server.place, {
    ...limits,
    partBytes: () => partBytes,
    maxCopyBytes: 2 * partBytes,
  });
  return {
    store,
    file: (digest) => join(server.objects, "sha256", digest),
    folders: [join(server.objects, "unfinished")],
    async close() {
      store.close();
      await server.close();
    },
  };
}

const engines = [
  { name: "a folder", open: openFolder, isThere: true },
  { name: "an S3 server", open: openS3, isThere: s3Program !== undefined },
];

describe.each(engines.filter(({ isThere }) => isThere))("blobs in $name", ({ open }) => {
  let engine: Engine;
  let store: BlobStore;
  beforeAll(async () => {
    engine = await open();
    store = engine.store;
  });
  afterAll(() => engine.close());
  afterEach(async () => {
    for (let after: string | undefined; ; ) {
      const { blobs, next } = await store.list(after);
      for (const { digest } of blobs) await store.remove(digest);
      if (next === undefined) break;
      after = next;
    }
  });

  const put = (bytes: Uint8Array) => store.put(inChunks(bytes));
  const read = async (blob: BlobInfo, range?: { start: number; end: number }) =>
    buffer(await store.get(blob, range && { range }));
  const listed = async () => (await store.list()).blobs.map(({ digest, size }) => ({ digest, size }));

  test.each([0, 1, 65_536, partBytes - 1, partBytes, partBytes + 1, 3 * partBytes + 7])(
    "%i bytes come back as they were, named by their digest",
    async (size) => {
      const bytes = randomBytes(size);
      const blob = await put(bytes);
      expect(blob).toEqual({ digest: createHash("sha256").update(bytes).digest("hex"), size });
      expect((await read(blob)).equals(bytes)).toBe(true);
      expect(await store.has(blob)).toBe(true);
      expect(await store.has({ ...blob, size: size + 1 })).toBe(false);
      expect(await listed()).toEqual([blob]);
      expect(leftovers()).toEqual([]);
    },
  );

  test("the store keeps equal bytes once, also those of writers at the same moment", async () => {
    const bytes = randomBytes(partBytes + 10);
    const blobs = await Promise.all(Array.from({ length: 5 }, () => put(bytes)));
    expect(new Set(blobs.map(({ digest }) => digest)).size).toBe(1);
    expect(await listed()).toEqual([blobs[0]]);
    expect((await read(blobs[0]!)).equals(bytes)).toBe(true);
    expect(leftovers()).toEqual([]);
  });

  test("ranges are read from and to any byte", async () => {
    const bytes = randomBytes(100_000);
    const blob = await put(bytes);
    for (const [start, end] of [
      [0, 1],
      [0, 100_000],
      [99_999, 100_000],
      [5, 70_000],
      [50_000, 200_000],
    ] as const)
      expect((await read(blob, { start, end })).equals(bytes.subarray(start, end))).toBe(true);
  });

  test("a page has a thousand blobs in order, and the next page continues it", async () => {
    const digests = Array.from({ length: 1_003 }, (_, index) =>
      createHash("sha256").update(`${index}`).digest("hex"),
    ).sort();
    for (const digest of digests) plant(digest, "x");
    plant("f".repeat(63), "no digest");
    const first = await store.list();
    expect(first.blobs.map(({ digest }) => digest)).toEqual(digests.slice(0, 1_000));
    expect(first.blobs[0]).toMatchObject({ size: 1, storedAt: expect.any(Number) });
    expect(first.next).toBe(digests[999]);
    const second = await store.list(first.next);
    expect(second.blobs.map(({ digest }) => digest)).toEqual(digests.slice(1_000));
    expect(second.next).toBeUndefined();
  });

  test("an error names a missing blob, and the blob can be removed again and again", async () => {
    const blob = await put(randomBytes(10));
    await store.remove(blob.digest);
    await store.remove(blob.digest);
    expect(await store.has(blob)).toBe(false);
    await expect(store.get(blob)).rejects.toMatchObject({
      code: "BlobLost",
      message: expect.stringContaining(`${blob.digest} is not in ${store.place}`),
    });
    for (const digest of ["", "../etc/passwd", "A".repeat(64), `${"a".repeat(64)}/`]) {
      await expect(store.get({ digest, size: 1 })).rejects.toMatchObject({ code: "BlobLost" });
      await expect(store.remove(digest)).rejects.toMatchObject({ code: "BlobLost" });
    }
  });

  test("a read of bytes that do not match the digest fails", async () => {
    const bytes = randomBytes(300_000);
    const blob = await put(bytes);
    const changed = Buffer.from(bytes);
    changed[299_999]! ^= 1;
    for (const content of [changed, bytes.subarray(0, -1), Buffer.concat([bytes, bytes]), Buffer.alloc(0)]) {
      plant(blob.digest, content);
      await expect(read(blob)).rejects.toMatchObject({ code: expect.stringMatching(/BlobLost|Unavailable/) });
    }
  });

  test("a failed source and an abort leave no file behind", async () => {
    const failing = async function* () {
      yield randomBytes(2 * partBytes);
      throw Object.assign(new Error("the source broke"), { code: "ENOSPC", syscall: "read" });
    };
    await expect(store.put(failing())).rejects.toThrow("the source broke");
    const abort = new AbortController();
    const endless = async function* () {
      for (let count = 0; ; count++) {
        if (count === 20) abort.abort(new Error("no longer wanted"));
        yield randomBytes(mebibyte);
      }
    };
    await expect(store.put(endless(), { signal: abort.signal })).rejects.toThrow("no longer wanted");
    expect(await listed()).toEqual([]);
    expect(leftovers()).toEqual([]);
    expect(await store.removeUnfinished(0)).toBe(0);
  });

  test("a read that is aborted or never begun ends its connection", async () => {
    const blob = await put(randomBytes(2 * partBytes));
    const abort = new AbortController();
    const stream = await store.get(blob, { signal: abort.signal });
    abort.abort(new Error("enough"));
    await expect(buffer(stream)).rejects.toThrow();
    (await store.get(blob)).destroy();
    expect((await read(blob)).length).toBe(2 * partBytes);
  });

  test("a large blob needs little memory", async () => {
    const chunk = randomBytes(mebibyte);
    let most = 0;
    const before = process.memoryUsage().arrayBuffers;
    const watched = async function* () {
      for (let count = 0; count < 160; count++) {
        most = Math.max(most, process.memoryUsage().arrayBuffers - before);
        yield chunk;
      }
    };
    const blob = await store.put(watched());
    expect(blob.size).toBe(160 * mebibyte);
    for await (const _bytes of await store.get(blob))
      most = Math.max(most, process.memoryUsage().arrayBuffers - before);
    expect(most).toBeLessThan(80 * mebibyte);
  });

  test("the check writes, reads and removes", async () => {
    await store.check();
    expect(await listed()).toEqual([]);
  });

  function leftovers(): string[] {
    return engine.folders.flatMap((folder) => {
      try {
        return readdirSync(folder, { recursive: true, encoding: "utf8" });
      } catch {
        return [];
      }
    });
  }

  function plant(digest: string, content: string | Uint8Array): void {
    mkdirSync(dirname(engine.file(digest)), { recursive: true });
    writeFileSync(engine.file(digest), content);
  }
});

/** Bytes in chunks of odd sizes. */
function inChunks(bytes: Uint8Array): Readable {
  const size = 99_991;
  const count = Math.ceil(bytes.length / size);
  return Readable.from(
    Array.from({ length: count }, (_, index) => bytes.subarray(index * size, (index + 1) * size)),
  );
}
