import { once } from "node:events";
import type { Readable } from "node:stream";
import type { Download } from "@sandpiper/sandbox/files/file-streams";
import type { FastifyReply } from "fastify";

/** Adds the file's time and, when known, its size to headers. */
export function withFileHeaders(
  headers: Record<string, string>,
  { modifiedAt }: Download,
  size: number | undefined,
) {
  const all = { ...headers, "last-modified": new Date(modifiedAt).toUTCString() };
  return size === undefined ? all : { ...all, "content-length": String(size) };
}

/**
 * Sends an opened file of a sandbox at the client's pace. Files that the kernel generates have no
 * size.
 */
export async function sendFile(
  reply: FastifyReply,
  file: Download,
  headers: Record<string, string>,
): Promise<FastifyReply> {
  const size = file.size > 0 || (await isEmpty(file.content)) ? file.size : undefined;
  return reply.headers(withFileHeaders(headers, file, size)).send(file.content);
}

/** Waits for the first bytes of a stream. True when it ends without content. */
async function isEmpty(content: Readable): Promise<boolean> {
  if (content.readableLength === 0) await once(content, "readable");
  return content.readableLength === 0;
}
