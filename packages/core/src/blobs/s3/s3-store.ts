import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import { fromIni } from "@aws-sdk/credential-provider-ini";
import { PlatformError } from "../../errors.ts";
import {
  type BlobInfo,
  type BlobPage,
  type BlobRange,
  type BlobStore,
  isDigest,
  maxPage,
  type StoredBlob,
} from "../blob-store.ts";
import { CountedBytes, checkBytes, separateFailures } from "../checked-stream.ts";
import type { S3Place } from "../place.ts";
import { BoundedHandler } from "./bounded-handler.ts";
import { describeFailure, isMissing, isTransient } from "./describe-failure.ts";
import { copyObject, type ObjectPlace, uploadParts } from "./multipart.ts";
import { cutIntoParts } from "./parts.ts";

/** Limits of the requests to a store. */
export interface S3Limits {
  /** Maximum time for a new connection, ms. */
  connectMs: number;
  /** Maximum time of a connection without a byte in either direction, ms. */
  idleMs: number;
  /** Maximum time of a call with all its tries, without the bytes of a blob, ms. */
  callMs: number;
  /** Maximum number of tries of a call, and of a read that makes no progress. */
  tries: number;
  /** Size of a part of a blob by its index, bytes. */
  partBytes?: (index: number) => number;
  /** Size above which an object is copied in parts, bytes. */
  maxCopyBytes?: number;
}

const defaultLimits: S3Limits = { connectMs: 5_000, idleMs: 30_000, callMs: 60_000, tries: 4 };
/** Rate of the slowest transfer that does not time out, bytes per ms. */
const minRate = 64;
/** Maximum number of pages of unfinished uploads that one `removeUnfinished` lists. */
const maxLeftoverPages = 100;

/** Opens a bucket without a request to the bucket. */
export function openS3BlobStore(place: S3Place, limits: S3Limits = defaultLimits): BlobStore {
  const { bucket, prefix, endpoint, region, credentialsFile } = place;
  const client = new S3Client({
    region,
    ...(endpoint !== undefined && { endpoint, forcePathStyle: true }),
    ...(credentialsFile !== undefined && { credentials: fromIni({ filepath: credentialsFile }) }),
    maxAttempts: limits.tries,
    // Blobs have digests of their own, so the newer checksums, which some servers do not know, are
    // needless.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: new BoundedHandler({
      connectionTimeout: limits.connectMs,
      socketTimeout: limits.idleMs,
      requestTimeout: limits.callMs,
      throwOnRequestTimeout: true,
    }),
  });
  const name = `s3://${bucket}/${prefix}${endpoint === undefined ? "" : ` at ${new URL(endpoint).origin}`}`;
  return new S3BlobStore({ client, bucket, prefix, name, limits });
}

interface S3Parts {
  client: S3Client;
  bucket: string;
  prefix: string;
  name: string;
  limits: S3Limits;
}

/**
 * Keeps blobs in a bucket as `sha256/<digest>` below the prefix. It uploads a large blob as
 * `unfinished/<id>`, because the digest is known only at the end, and lets the server copy it.
 */
class S3BlobStore implements BlobStore {
  readonly place: string;
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #prefix: string;
  readonly #limits: S3Limits;

  constructor({ client, bucket, prefix, name, limits }: S3Parts) {
    this.#client = client;
    this.#bucket = bucket;
    this.#prefix = prefix;
    this.place = name;
    this.#limits = limits;
  }

  async put(source: AsyncIterable<Uint8Array>, { signal }: { signal?: AbortSignal } = {}): Promise<BlobInfo> {
    const store = async (bytes: AsyncIterable<Uint8Array>): Promise<BlobInfo> => {
      const counted = new CountedBytes();
      const parts = cutIntoParts(bytes, counted, this.#limits.partBytes);
      const { value: first } = await parts.next();
      if (first!.isLast) return this.#putWhole(first!.bytes, counted.finish(), signal);
      const draft = this.#at(`unfinished/${randomUUID()}`);
      const signalFor = (size: number) => this.#signal(signal, size);
      try {
        await uploadParts({ client: this.#client, object: draft, first: first!.bytes, parts, signalFor });
        const blob = counted.finish();
        if (!(await this.has(blob))) {
          const { maxCopyBytes } = this.#limits;
          const to = this.#object(blob.digest);
          await copyObject({
            client: this.#client,
            from: draft,
            to,
            size: blob.size,
            signalFor,
            maxCopyBytes,
          });
        }
        return blob;
      } finally {
        await this.#delete(draft).catch(() => {});
      }
    };
    return separateFailures(source, store, (error) => this.#describe(error, signal));
  }

  async get(
    blob: BlobInfo,
    { range, signal }: { range?: BlobRange; signal?: AbortSignal } = {},
  ): Promise<Readable> {
    const limited = this.#signal(signal, blob.size);
    const part = { start: range?.start ?? 0, end: Math.min(range?.end ?? blob.size, blob.size) };
    const first = await this.#named(() => this.#open(blob, part, limited), signal);
    const bytes = this.#read(blob, { part, first, limited }, signal);
    const checked = range ? bytes : checkBytes(bytes, blob, this.place);
    const stream = Readable.from(checked, { objectMode: false, ...(signal && { signal }) });
    // A generator that was never started does not end the request.
    stream.once("close", () => first.destroy());
    return stream;
  }

  async has({ digest, size }: BlobInfo): Promise<boolean> {
    return this.#named(async () => {
      try {
        const head = await this.#client.send(new HeadObjectCommand(this.#object(digest)), this.#once());
        return head.ContentLength === size;
      } catch (error) {
        if (isMissing(error)) return false;
        throw error;
      }
    });
  }

  async remove(digest: string): Promise<void> {
    await this.#named(() => this.#delete(this.#object(digest)));
  }

  async list(after = ""): Promise<BlobPage> {
    return this.#named(async () => {
      const folder = `${this.#prefix}sha256/`;
      const answer = await this.#client.send(
        new ListObjectsV2Command({
          ...{ Bucket: this.#bucket, Prefix: folder, MaxKeys: maxPage },
          ...(after !== "" && { StartAfter: folder + after }),
        }),
        this.#once(),
      );
      const blobs = (answer.Contents ?? []).flatMap(({ Key = "", Size = 0, LastModified }): StoredBlob[] => {
        const digest = Key.slice(folder.length);
        if (!isDigest(digest) || digest <= after) return [];
        return [{ digest, size: Size, storedAt: LastModified?.getTime() ?? Date.now() }];
      });
      return { blobs, next: answer.IsTruncated ? blobs.at(-1)?.digest : undefined };
    });
  }

  async removeUnfinished(unusedMs: number): Promise<number> {
    return this.#named(async () => {
      const Bucket = this.#bucket;
      const Prefix = `${this.#prefix}unfinished/`;
      const isOld = (time: Date | undefined) => time !== undefined && Date.now() - time.getTime() >= unusedMs;
      let removed = 0;
      let StartAfter: string | undefined;
      for (let page = 0; page < maxLeftoverPages; page++) {
        const command = new ListObjectsV2Command({ Bucket, Prefix, ...(StartAfter && { StartAfter }) });
        const { Contents = [], IsTruncated } = await this.#client.send(command, this.#once());
        for (const { Key, LastModified } of Contents) {
          if (!Key?.startsWith(Prefix) || !isOld(LastModified)) continue;
          await this.#delete({ Bucket, Key });
          removed++;
        }
        StartAfter = Contents.at(-1)?.Key;
        if (!IsTruncated || !StartAfter) break;
      }
      const uploads = new ListMultipartUploadsCommand({ Bucket, Prefix });
      for (const { Key, UploadId, Initiated } of (await this.#client.send(uploads, this.#once())).Uploads ??
        []) {
        if (!Key?.startsWith(Prefix) || !isOld(Initiated)) continue;
        await this.#client.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }), this.#once());
        removed++;
      }
      return removed;
    });
  }

  async check(): Promise<void> {
    const blob = await this.put(Readable.from([Buffer.from(randomUUID())]));
    for await (const _chunk of await this.get(blob)) {
      // The read checks the bytes.
    }
    await this.list();
    await this.remove(blob.digest);
  }

  close(): void {
    this.#client.destroy();
  }

  async #putWhole(bytes: Buffer, blob: BlobInfo, signal?: AbortSignal): Promise<BlobInfo> {
    const command = new PutObjectCommand({
      ...this.#object(blob.digest),
      Body: bytes,
      ContentLength: bytes.length,
    });
    await this.#client.send(command, { abortSignal: this.#signal(signal, bytes.length) });
    return blob;
  }

  /** Opens the bytes of an object from `start` to before `end`. */
  async #open({ digest }: BlobInfo, { start, end }: BlobRange, abortSignal: AbortSignal): Promise<Readable> {
    const isPart = start > 0;
    const range = isPart ? { Range: `bytes=${start}-${Math.max(end - 1, start)}` } : {};
    try {
      const { Body, ContentRange } = await this.#client.send(
        new GetObjectCommand({ ...this.#object(digest), ...range }),
        { abortSignal },
      );
      const body = Body as Readable;
      if (!isPart || ContentRange?.startsWith(`bytes ${start}-`)) return body;
      body.destroy();
      throw new PlatformError("BlobsFailed", { place: this.place, reason: "RangeIgnored" });
    } catch (error) {
      if (isMissing(error)) throw new PlatformError("BlobMissing", { digest, place: this.place });
      throw error;
    }
  }

  /** Reads a blob. Continues after a lost connection, as long as the read makes progress. */
  async *#read(
    blob: BlobInfo,
    { part, first, limited }: { part: BlobRange; first: Readable; limited: AbortSignal },
    signal: AbortSignal | undefined,
  ): AsyncGenerator<Uint8Array> {
    let { start } = part;
    let failures = 0;
    let body: Readable | undefined = first;
    for (;;) {
      try {
        body ??= await this.#open(blob, { start, end: part.end }, limited);
        for await (const chunk of body as AsyncIterable<Buffer>) {
          start += chunk.length;
          failures = 0;
          yield chunk.subarray(
            0,
            start > part.end && part.end < blob.size ? chunk.length - (start - part.end) : chunk.length,
          );
          if (start >= part.end && part.end < blob.size) return;
        }
        if (start >= part.end) return;
        throw Object.assign(new Error("cut off"), { code: "ECONNRESET" });
      } catch (error) {
        if (limited.aborted || !isTransient(error) || ++failures >= this.#limits.tries)
          throw this.#describe(error, signal);
        await sleep(100 * 2 ** failures, undefined, { signal: limited });
        body = undefined;
      } finally {
        body?.destroy();
      }
    }
  }

  async #delete(object: ObjectPlace): Promise<void> {
    await this.#client.send(new DeleteObjectCommand(object), this.#once());
  }

  #object(digest: string): ObjectPlace {
    if (!isDigest(digest)) throw new PlatformError("BlobMissing", { digest: "(invalid)", place: this.place });
    return this.#at(`sha256/${digest}`);
  }

  #at(name: string): ObjectPlace {
    return { Bucket: this.#bucket, Key: this.#prefix + name };
  }

  /** Returns a signal that also aborts when a call with `size` bytes takes too long. */
  #signal(signal: AbortSignal | undefined, size: number): AbortSignal {
    const limit = AbortSignal.timeout(this.#limits.callMs + Math.ceil(size / minRate));
    return signal ? AbortSignal.any([signal, limit]) : limit;
  }

  #once(): { abortSignal: AbortSignal } {
    return { abortSignal: this.#signal(undefined, 0) };
  }

  async #named<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw this.#describe(error, signal);
    }
  }

  #describe(error: unknown, signal: AbortSignal | undefined): unknown {
    return signal?.aborted ? signal.reason : describeFailure(error, this.place);
  }
}
