import { randomUUID } from "node:crypto";
import { type FileHandle, mkdir, open, unlink } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { createZstdCompress, createZstdDecompress } from "node:zlib";
import type { BlobInfo, BlobStore } from "@sandpiper/core/blobs/blob-store";
import type { BlobReferenceStore, KeptBlob } from "@sandpiper/core/blobs/reference-store";
import { errorText, PlatformError } from "@sandpiper/core/errors";
import type { Logger } from "@sandpiper/core/log/logger";
import type { FilesOf, PreparedSpec, SandboxDriver } from "../driver.ts";
import { formatSize } from "./disk-space.ts";

export interface KeptFilesDeps {
  driver: Pick<SandboxDriver, "files" | "prepare">;
  blobs: BlobStore;
  references: BlobReferenceStore;
  /** Folder for downloads, on a disk with room for the files of a sandbox. */
  folder: string;
  limits: {
    /** Maximum size of all copies of a user together, bytes; 0: no limit. */
    userBytes: number;
    /** Delay before the first repetition of a failed copy, ms. It doubles with each failure. */
    retryMs?: number;
  };
  logger: Pick<Logger, "info" | "warn">;
}

interface Upload {
  of: FilesOf;
  userId: string;
  tries: number;
}

interface RestoreOptions {
  spec: PreparedSpec;
  userId: string;
  signal: AbortSignal;
  /** Gets a sentence about the progress at most every second. */
  report: (text: string) => void;
}

const maxTries = 10;
const reportMs = 1_000;

/**
 * Copies the files of hibernated sandboxes and of snapshots to the shared blobs, and restores them
 * on another server. It makes the copies in the background, one at a time.
 */
export class KeptFiles {
  readonly #deps: KeptFilesDeps;
  readonly #waiting = new Map<string, Upload>();
  readonly #retries = new Map<string, NodeJS.Timeout>();
  readonly #closing = new AbortController();
  #current: { key: string; abort: AbortController; done: Promise<void> } | undefined;

  constructor(deps: KeptFilesDeps) {
    this.#deps = deps;
  }

  /** Copies files in the background. The files must not change before `cancel` has resolved. */
  keepSoon(of: FilesOf, userId: string, tries = 0): void {
    if (!this.#deps.driver.files || this.#closing.signal.aborted) return;
    this.#waiting.set(keyOf(of), { of, userId, tries });
    this.#next();
  }

  /** Ends the copying of files, so that the files may change. Never rejects. */
  async cancel(of: FilesOf): Promise<void> {
    const key = keyOf(of);
    this.#waiting.delete(key);
    clearTimeout(this.#retries.get(key));
    this.#retries.delete(key);
    if (this.#current?.key !== key) return;
    this.#current.abort.abort(new PlatformError("CopyCancelled"));
    await this.#current.done;
  }

  /** Copies files that have no copy, and files that were used after their last copy. */
  async keepMissing(
    hibernated: readonly { id: string; userId: string; lastUsedAt: number }[],
    snapshots: readonly { id: string; userId: string }[],
  ): Promise<void> {
    for (const { id, userId, lastUsedAt } of hibernated) {
      const { keptAt = 0 } = (await this.#find(id)) ?? {};
      if (keptAt < lastUsedAt) this.keepSoon({ kind: "sandbox", id }, userId);
    }
    for (const { id, userId } of snapshots)
      if (!(await this.#find(id))) this.keepSoon({ kind: "snapshot", id }, userId);
  }

  #find(id: string): Promise<KeptBlob | undefined> {
    return this.#deps.references.get(id);
  }

  /**
   * Restores files from their copy. Does nothing when this server has the files, or when there is
   * no copy. Throws BlobsUnavailable, BlobLost, SandboxFailed, the signal's reason.
   */
  async restore(of: FilesOf, { spec, userId, signal, report }: RestoreOptions): Promise<void> {
    const { driver, logger } = this.#deps;
    if (!driver.files || (await driver.files.has(of))) return;
    const kept = await this.#find(of.id);
    if (!kept) return;
    const what = `${formatSize(kept.size)} of ${new Date(kept.keptAt).toISOString().slice(0, 16)}Z`;
    report(`Restoring the files that were kept: ${what}.`);
    await driver.prepare(spec, { signal, owner: userId, onProgress: report });
    const file = await this.#fetch(kept, signal, (share) =>
      report(`Restoring the files that were kept: ${Math.floor(share * 100)} % of ${what}.`),
    );
    try {
      const packed = file.createReadStream({ start: 0, autoClose: false });
      await driver.files.import(of, spec, piped(packed, createZstdDecompress()), signal);
    } finally {
      await file.close();
    }
    logger.info({ [of.kind]: of.id, size: kept.size }, "kept files restored");
  }

  /** Aborts the current copy and waits for its end. */
  async close(): Promise<void> {
    this.#closing.abort(new PlatformError("CopyCancelled"));
    this.#waiting.clear();
    for (const timer of this.#retries.values()) clearTimeout(timer);
    this.#current?.abort.abort(new PlatformError("CopyCancelled"));
    await this.#current?.done;
  }

  #next(): void {
    const [entry] = this.#waiting;
    if (this.#current || !entry) return;
    const [key, upload] = entry;
    this.#waiting.delete(key);
    const abort = new AbortController();
    const done = this.#keep(upload, abort.signal)
      .catch((error: unknown) => this.#failed(upload, error, abort.signal))
      .finally(() => {
        this.#current = undefined;
        this.#next();
      });
    this.#current = { key, abort, done };
  }

  async #keep({ of, userId }: Upload, signal: AbortSignal): Promise<void> {
    const { driver, blobs, references, logger } = this.#deps;
    const begin = performance.now();
    const packed = piped(driver.files!.export(of, signal), createZstdCompress());
    const blob = await blobs.put(await this.#bound(packed, of, userId), { signal });
    signal.throwIfAborted();
    const isKept = await references.keep({ id: of.id, userId }, blob);
    // An equal blob may have been stored earlier, and a collector may have removed it since.
    if (!isKept || !(await blobs.has(blob))) {
      if (isKept) await references.release(of.id);
      throw new PlatformError("CopyRemoved");
    }
    const ms = Math.round(performance.now() - begin);
    logger.info({ [of.kind]: of.id, size: blob.size, ms }, "files kept in the shared blobs");
  }

  #failed(upload: Upload, error: unknown, signal: AbortSignal): void {
    const { logger, limits } = this.#deps;
    const { retryMs = 60_000 } = limits;
    if (signal.aborted) return;
    const { of, userId } = upload;
    const tries = upload.tries + 1;
    const isFinal = error instanceof PlatformError && error.code === "SandboxNotFound";
    if (isFinal) return;
    logger.warn({ [of.kind]: of.id, reason: errorText(error), tries }, "files could not be kept");
    if (tries >= maxTries || (error instanceof PlatformError && error.code === "StorageQuotaReached")) return;
    const again = () => {
      this.#retries.delete(keyOf(of));
      this.keepSoon(of, userId, tries);
    };
    clearTimeout(this.#retries.get(keyOf(of)));
    this.#retries.set(keyOf(of), setTimeout(again, retryMs * 2 ** (tries - 1)).unref());
  }

  /** Passes bytes on, and throws CopiesFull when the user's copies would exceed `userBytes`. */
  async #bound(
    bytes: AsyncIterable<Uint8Array>,
    of: FilesOf,
    userId: string,
  ): Promise<AsyncIterable<Uint8Array>> {
    const { references, limits } = this.#deps;
    const { userBytes: max } = limits;
    if (max === 0) return bytes;
    const replaced = (await references.get(of.id))?.size ?? 0;
    let room = max - (await references.userBytes(userId)) + replaced;
    return (async function* () {
      for await (const chunk of bytes) {
        room -= chunk.length;
        if (room < 0) throw new PlatformError("CopiesFull");
        yield chunk;
      }
    })();
  }

  /**
   * Downloads a blob to a file without a name and checks the digest of the blob. The check comes
   * before the archive is read, because root unpacks it.
   */
  async #fetch(kept: BlobInfo, signal: AbortSignal, report: (share: number) => void): Promise<FileHandle> {
    const { blobs, folder } = this.#deps;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = join(folder, randomUUID());
    const file = await open(path, "wx+", 0o600);
    try {
      await unlink(path);
      let written = 0;
      let reportedAt = performance.now();
      for await (const chunk of (await blobs.get(kept, { signal })) as AsyncIterable<Buffer>) {
        await file.appendFile(chunk);
        written += chunk.length;
        if (performance.now() - reportedAt < reportMs) continue;
        reportedAt = performance.now();
        report(written / kept.size);
      }
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }
}

function keyOf({ kind, id }: FilesOf): string {
  return `${kind} ${id}`;
}

/** Passes bytes through a stream. The result fails when the source or the stream fails. */
async function* piped(
  source: AsyncIterable<Uint8Array>,
  through: ReturnType<typeof createZstdCompress> | ReturnType<typeof createZstdDecompress>,
): AsyncGenerator<Uint8Array> {
  const input = source instanceof Readable ? source : Readable.from(source, { objectMode: false });
  input.once("error", (error) => through.destroy(error));
  try {
    yield* input.pipe(through) as AsyncIterable<Uint8Array>;
  } finally {
    input.destroy();
    through.destroy();
    await ended(input);
  }
}

/** Waits until a source is closed, because it has then released its process or file. */
function ended(input: Readable): Promise<void> {
  return new Promise((resolve) => (input.closed ? resolve() : input.once("close", () => resolve())));
}
