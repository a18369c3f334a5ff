import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, unlink, utimes } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { PlatformError } from "../errors.ts";
import {
  type BlobInfo,
  type BlobPage,
  type BlobRange,
  type BlobStore,
  isDigest,
  maxPage,
  type StoredBlob,
} from "./blob-store.ts";
import { CountedBytes, checkBytes, separateFailures } from "./checked-stream.ts";

const readBytes = 256 * 1024;
/** Number of characters of a digest that name its folder, so that no folder has too many files. */
const prefixLength = 2;

/**
 * Keeps blobs in a folder, which several servers may share through a network filesystem. A blob has
 * the path `sha256/ab/cd…`. The folder `unfinished` has the blobs that are being written. A blob
 * gets its path when it is complete and synced.
 */
export class FolderBlobStore implements BlobStore {
  readonly place: string;

  /** `folder` is an absolute path. `put` creates it when it is missing. */
  constructor(folder: string) {
    this.place = folder;
  }

  async put(source: AsyncIterable<Uint8Array>, options: { signal?: AbortSignal } = {}): Promise<BlobInfo> {
    const store = async (bytes: AsyncIterable<Uint8Array>) => {
      const draft = join(await this.#folder("unfinished"), randomUUID());
      try {
        const blob = await write(draft, bytes, options.signal);
        await this.#publish(draft, blob);
        return blob;
      } catch (error) {
        await rm(draft, { force: true });
        throw error;
      }
    };
    return separateFailures(source, store, (error) => this.#describe(error));
  }

  async get(
    blob: BlobInfo,
    { range, signal }: { range?: BlobRange; signal?: AbortSignal } = {},
  ): Promise<Readable> {
    return this.#named(async () => {
      const file = await open(this.#path(blob.digest), constants.O_RDONLY | constants.O_NOFOLLOW).catch(
        (error: NodeJS.ErrnoException) => {
          if (error.code !== "ENOENT") throw error;
          throw new PlatformError("BlobMissing", { digest: blob.digest, place: this.place });
        },
      );
      const bytes = readFrom(file, range);
      const checked = range ? bytes : checkBytes(bytes, blob, this.place);
      const stream = Readable.from(checked, { objectMode: false, ...(signal && { signal }) });
      // A generator that was never started does not close the file.
      stream.once("close", () => void file.close().catch(() => {}));
      return stream;
    });
  }

  async has({ digest, size }: BlobInfo): Promise<boolean> {
    return this.#named(async () => (await statIfThere(this.#path(digest)))?.size === size);
  }

  async remove(digest: string): Promise<void> {
    await this.#named(() => rm(this.#path(digest), { force: true }));
  }

  async list(after = ""): Promise<BlobPage> {
    return this.#named(async () => {
      const top = join(this.place, "sha256");
      const blobs: StoredBlob[] = [];
      const prefixes = (await readIfThere(top)).filter((name) => name >= after.slice(0, prefixLength)).sort();
      for (const prefix of prefixes) {
        const names = (await readIfThere(join(top, prefix))).map((name) => prefix + name).sort();
        for (const digest of names) {
          if (!isDigest(digest) || digest <= after) continue;
          const info = await statIfThere(this.#path(digest));
          if (!info?.isFile()) continue;
          if (blobs.length === maxPage) return { blobs, next: blobs.at(-1)!.digest };
          blobs.push({ digest, size: info.size, storedAt: info.mtimeMs });
        }
      }
      return { blobs, next: undefined };
    });
  }

  async removeUnfinished(unusedMs: number): Promise<number> {
    return this.#named(async () => {
      const folder = await this.#folder("unfinished");
      let removed = 0;
      for (const name of await readdir(folder)) {
        const path = join(folder, name);
        const info = await statIfThere(path);
        if (!info || Date.now() - info.mtimeMs < unusedMs) continue;
        await rm(path, { force: true });
        removed++;
      }
      return removed;
    });
  }

  async check(): Promise<void> {
    const bytes = Buffer.from(randomUUID());
    const blob = await this.put(Readable.from([bytes]));
    for await (const _chunk of await this.get(blob)) {
      // The read checks the bytes.
    }
    await this.remove(blob.digest);
  }

  close(): void {}

  #path(digest: string): string {
    if (!isDigest(digest)) throw new PlatformError("BlobMissing", { digest: "(invalid)", place: this.place });
    return join(this.place, "sha256", digest.slice(0, prefixLength), digest.slice(prefixLength));
  }

  async #folder(...names: string[]): Promise<string> {
    const path = join(this.place, ...names);
    await mkdir(path, { recursive: true, mode: 0o700 });
    return path;
  }

  /** Gives a complete file the path of its blob. An existing blob becomes as young as a new one. */
  async #publish(draft: string, blob: BlobInfo): Promise<void> {
    const folder = await this.#folder("sha256", blob.digest.slice(0, prefixLength));
    const path = this.#path(blob.digest);
    if ((await statIfThere(path))?.size === blob.size) {
      const now = new Date();
      const isThere = await utimes(path, now, now).then(
        () => true,
        () => false,
      );
      if (isThere) return unlink(draft);
    }
    await rename(draft, path);
    for (const written of [folder, join(this.place, "sha256"), this.place]) await sync(written);
  }

  /** Turns failures of the filesystem into errors of the catalogue. */
  async #named<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#describe(error);
    }
  }

  #describe(error: unknown): unknown {
    const { code, syscall } = error as NodeJS.ErrnoException;
    const place = this.place;
    if (code === "ENOSPC" || code === "EDQUOT")
      return new PlatformError("BlobsFull", { place }, { cause: error });
    if (syscall === undefined || code === undefined) return error;
    return new PlatformError("BlobFolderUnusable", { place, reason: code }, { cause: error });
  }
}

async function write(
  path: string,
  source: AsyncIterable<Uint8Array>,
  signal?: AbortSignal,
): Promise<BlobInfo> {
  const file = await open(path, "wx", 0o600);
  try {
    const counted = new CountedBytes();
    for await (const chunk of source) {
      signal?.throwIfAborted();
      counted.add(chunk);
      await file.appendFile(chunk);
    }
    signal?.throwIfAborted();
    await file.sync();
    return counted.finish();
  } finally {
    await file.close();
  }
}

async function* readFrom(file: FileHandle, range?: BlobRange): AsyncGenerator<Uint8Array> {
  let position = range?.start ?? 0;
  const end = range?.end ?? Number.MAX_SAFE_INTEGER;
  try {
    while (position < end) {
      const buffer = Buffer.allocUnsafe(Math.min(readBytes, end - position));
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close().catch(() => {});
  }
}

async function statIfThere(path: string) {
  return stat(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
    return undefined;
  });
}

async function readIfThere(path: string): Promise<string[]> {
  return readdir(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT" && error.code !== "ENOTDIR") throw error;
    return [];
  });
}

async function sync(folder: string): Promise<void> {
  const handle = await open(folder, "r");
  await handle.sync().finally(() => handle.close());
}
