import { once } from "node:events";
import type { Readable } from "node:stream";
import type { Download } from "@sandpiper/sandbox/files/file-streams";
import type { FastifyReply } from "fastify";

/** Headers of an opened file: those given, its time, and its size where that is known. */
export function headersOf(
  headers: Record<string, string>,
  { modifiedAt }: Download,
  size: number | undefined,
) {
  const all = { ...headers, "last-modified": new Date(modifiedAt).toUTCString() };
  return size === undefined ? all : { ...all, "content-length": String(size) };
}

/** Answers with an opened file of a sandbox, read only as fast as the client takes it. Files that the kernel makes up have no size. */
export async function sendFile(
  reply: FastifyReply,
  file: Download,
  headers: Record<string, string>,
): Promise<FastifyReply> {
  const size = file.size > 0 || (await isEmpty(file.content)) ? file.size : undefined;
  return reply.headers(headersOf(headers, file, size)).send(file.content);
}

/** Whether a stream ends without content; waits for its first bytes. */
async function isEmpty(content: Readable): Promise<boolean> {
  if (content.readableLength === 0) await once(content, "readable");
  return content.readableLength === 0;
}
