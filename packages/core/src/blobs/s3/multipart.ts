import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import type { Part } from "./parts.ts";

export interface ObjectPlace {
  Bucket: string;
  Key: string;
}

/** Returns a signal that aborts a call with so many bytes when the call takes too long. */
type SignalFor = (size: number) => AbortSignal;

/** Number of parts that are uploaded at the same time. Each of them is in memory. */
const parallelParts = 2;
/** Maximum time to abort an upload, ms. `removeUnfinished` also removes the upload later. */
const takeBackMs = 10_000;
/** Maximum size of one copy, and size of the parts of a larger copy, bytes. */
const maxCopy = 4 * 2 ** 30;

interface Upload {
  client: S3Client;
  object: ObjectPlace;
  /** The first part. `parts` has the other parts. */
  first: Buffer;
  parts: AsyncIterable<Part>;
  signalFor: SignalFor;
}

/** Uploads the parts of a stream as one object. Leaves nothing behind when it fails. */
export async function uploadParts({ client, object, first, parts, signalFor }: Upload): Promise<void> {
  await asMultipart({ client, object, signalFor }, async (UploadId) => {
    const tags: { PartNumber: number; ETag: string | undefined }[] = [];
    const running = new Set<Promise<void>>();
    let failed: { error: unknown } | undefined;
    const upload = async (bytes: Buffer) => {
      const PartNumber = tags.push({ PartNumber: tags.length + 1, ETag: undefined });
      const given = { ...object, UploadId, PartNumber, Body: bytes, ContentLength: bytes.length };
      const abortSignal = signalFor(bytes.length);
      const { ETag } = await client.send(new UploadPartCommand(given), { abortSignal });
      tags[PartNumber - 1]!.ETag = ETag;
    };
    const begin = async (bytes: Buffer) => {
      const part = upload(bytes)
        .catch((error: unknown) => {
          failed ??= { error };
        })
        .finally(() => running.delete(part));
      running.add(part);
      if (running.size >= parallelParts) await Promise.race(running);
      if (failed) throw failed.error;
    };
    try {
      await begin(first);
      for await (const { bytes } of parts) await begin(bytes);
    } finally {
      await Promise.all(running);
    }
    if (failed) throw failed.error;
    return tags;
  });
}

interface Copy {
  client: S3Client;
  from: ObjectPlace;
  to: ObjectPlace;
  /** Size of the object, bytes. */
  size: number;
  signalFor: SignalFor;
  maxCopyBytes?: number | undefined;
}

/** Makes the server copy an object, in parts when the object is large. */
export async function copyObject({
  client,
  from,
  to,
  size,
  signalFor,
  maxCopyBytes = maxCopy,
}: Copy): Promise<void> {
  const CopySource = `${from.Bucket}/${encodeURI(from.Key)}`;
  const abortSignal = signalFor(size);
  if (size <= maxCopyBytes) {
    await client.send(new CopyObjectCommand({ ...to, CopySource }), { abortSignal });
    return;
  }
  await asMultipart({ client, object: to, signalFor }, async (UploadId) => {
    const tags: { PartNumber: number; ETag: string | undefined }[] = [];
    for (let start = 0; start < size; start += maxCopyBytes) {
      const CopySourceRange = `bytes=${start}-${Math.min(start + maxCopyBytes, size) - 1}`;
      const PartNumber = tags.length + 1;
      const command = new UploadPartCopyCommand({ ...to, UploadId, PartNumber, CopySource, CopySourceRange });
      const { CopyPartResult } = await client.send(command, { abortSignal });
      tags.push({ PartNumber, ETag: CopyPartResult?.ETag });
    }
    return tags;
  });
}

/** Begins an upload of several parts. Completes the upload, or aborts it when `send` fails. */
async function asMultipart(
  { client, object, signalFor }: { client: S3Client; object: ObjectPlace; signalFor: SignalFor },
  send: (id: string) => Promise<{ PartNumber: number; ETag: string | undefined }[]>,
): Promise<void> {
  const call = () => ({ abortSignal: signalFor(0) });
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(object), call());
  try {
    const Parts = await send(UploadId!);
    const command = new CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts } });
    await client.send(command, call());
  } catch (error) {
    // The call has its own signal, because the signal of the caller may be aborted.
    const abortSignal = AbortSignal.timeout(takeBackMs);
    const takeBack = new AbortMultipartUploadCommand({ ...object, UploadId });
    await client.send(takeBack, { abortSignal }).catch(() => {});
    throw error;
  }
}
